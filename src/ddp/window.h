// Window: the calls of one optimizer step, and what they have made ready.
//
//   idle --Begin--> open --BeginMicroBatch--> open, micro-batch 1 .. A --BeginFinish--> finishing --End--> idle
//
// Pure bookkeeping, not synchronised. A call out of order is kFailedPrecondition and changes nothing.

#ifndef TUTTI_SRC_DDP_WINDOW_H_
#define TUTTI_SRC_DDP_WINDOW_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "src/ddp/bucket_plan.h"

namespace tutti {

class Window {
 public:
  // Both must outlive the window.
  Window(const BucketPlan& plan, absl::Span<const std::string> names);

  absl::Status CheckBegin(int micro_batches) const;
  void Begin(int micro_batches);  // CheckBegin was OK
  absl::Status BeginMicroBatch();

  // A parameter becomes ready in two steps, so that its gradient can be worked on in between, without a lock: Mark
  // claims it for this micro-batch, Complete says that it may be reduced.
  absl::Status Mark(int parameter);
  void Complete(int parameter, absl::Duration now);

  absl::Status BeginFinish();
  // Parameters that no micro-batch of the window marked.
  std::vector<int> Unmarked() const;
  // Completes those that the last micro-batch did not mark.
  void CompleteRest(absl::Duration now);
  void End();

  int pending_micro_batches() const;
  // Buckets that may be launched: this many from the first on.
  int ready_buckets() const { return ready_buckets_; }
  absl::Duration ready_at(int bucket) const { return ready_at_[bucket]; }

 private:
  enum class Phase { kIdle, kOpen, kFinishing };

  absl::Status OutOfOrder(absl::string_view call) const;
  std::string State() const;

  const BucketPlan& plan_;
  const absl::Span<const std::string> names_;

  Phase phase_ = Phase::kIdle;
  int declared_ = 0;                      // micro-batches
  int begun_ = 0;                         // micro-batches
  std::vector<int> marked_in_;            // per parameter: the last micro-batch that marked it, from 1; 0: none
  std::vector<int> missing_;              // per bucket: parameters that are not complete in the last micro-batch
  std::vector<absl::Duration> ready_at_;  // per bucket
  int ready_buckets_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_SRC_DDP_WINDOW_H_
