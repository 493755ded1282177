// The divisor of a window.

#ifndef TUTTI_SRC_DDP_SCALE_H_
#define TUTTI_SRC_DDP_SCALE_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tutti/gradient_bucketer.h"
#include "tutti/process_group.h"

namespace tutti {

// "mean", "mean-over-ranks", "sum", "weighted"; "unknown" outside the enumeration.
absl::string_view Name(ScaleMode mode);

// Whether the weights are those that the mode needs; the message names the one that is wrong.
absl::Status CheckWeights(ScaleMode mode, const WindowOptions& options);

// For every mode but kWeighted.
double DivisorOf(ScaleMode mode, int world_size, int micro_batches);

// Sums the weights of all ranks in the background. Waiting is allowed from any thread, Start only while nobody else
// uses the object. Must not be moved or destroyed before Done.
class WeightExchange {
 public:
  // A collective.
  void Start(ProcessGroup& group, const WindowOptions& options, absl::Duration timeout);
  bool Done() const { return work_.Done(); }
  // The sum, with the same bits on every rank. kFailedPrecondition, on every rank, if the ranks have declared different
  // numbers of micro-batches.
  absl::StatusOr<double> Wait();

 private:
  struct Share {
    double weight;
    double micro_batches;
  };

  Share mine_ = {};
  std::vector<Share> shares_;  // by rank
  Work work_{absl::OkStatus()};
};

}  // namespace tutti

#endif  // TUTTI_SRC_DDP_SCALE_H_
