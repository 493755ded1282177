// GradientBucketer: sums the gradients of all ranks while backward still runs, and divides them exactly once.
//
//   auto bucketer = tutti::GradientBucketer::Create(*group, {{"w1", {784, 128}}, {"b1", {128}}}, {});
//   for (each optimizer step) {
//     bucketer->BeginWindow({.micro_batches = 4});
//     for (int m = 0; m < 4; ++m) {
//       bucketer->BeginMicroBatch();
//       ... backward adds (+=) each parameter's gradient to gradient(p), then calls MarkReady(p) ...
//     }
//     absl::StatusOr<tutti::StepReport> report = bucketer->Finish();
//     ... optimizer step on gradient(p) ...
//   }

#ifndef TUTTI_GRADIENT_BUCKETER_H_
#define TUTTI_GRADIENT_BUCKETER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tutti/process_group.h"

namespace tutti {

// One tensor of the model. All ranks register the same parameters in the same order.
struct Parameter {
  std::string name;  // unique and not empty; it is what errors and reports say
  std::vector<int64_t> shape = {};
  DataType type = DataType::kFloat32;  // floating point
  // Where the parameter itself lies, if known: two parameters whose storage overlaps (tied weights) are refused by
  // name, because their gradients belong together. Null: not checked. Never read or written.
  const void* storage = nullptr;
  // In elements; empty: dense, row-major. Anything else that is not dense is refused: gradients are dense.
  std::vector<int64_t> strides = {};
};

// By what the sum of all gradients is divided. W ranks, A micro-batches in this window, g[r][a] the gradient of
// micro-batch a on rank r, w[r][a] its weight.
enum class ScaleMode : uint8_t {
  kMean,           // sum g / (W * A): each micro-batch's loss is a mean. A is this window's, also if it is a short one.
  kMeanOverRanks,  // sum g / W: the caller has already divided the loss by A.
  kSum,            // sum g: the caller divides.
  kWeighted,  // sum g / sum w: the loss is a sum over w tokens or samples. Total 0: gradient 0, report.zero_weight.
};

struct BucketerOptions {
  ScaleMode scale = ScaleMode::kMean;
  // Sums 16-bit gradients over micro-batches and ranks in fp32, and rounds once at the end. MarkReady then takes the
  // gradient out of its view, which is zero again for the next micro-batch.
  bool accumulate_in_fp32 = false;
  // Parameters that a window leaves without a gradient: unused on some ranks counts as zero there; unused on all is
  // left untouched and reported. What was written to a view that was never marked ready is not a gradient. Costs one
  // small all-reduce per window. False: such a window is an error on all ranks.
  bool find_unused_parameters = false;

  // A bucket never exceeds this. Parameters are packed without gaps; one that does not fit into the rest of a bucket
  // opens the next, and one that is larger than this is cut into buckets of its own. At least one element. 16-bit
  // gradients that are accumulated in fp32 count as fp32.
  size_t bucket_bytes = size_t{25} << 20;
  // The first bucket (of the parameters registered last, whose gradients are ready first) is kept small, so that
  // communication starts early. Only a single parameter may exceed this; nothing exceeds bucket_bytes.
  size_t first_bucket_bytes = size_t{1} << 20;
  // Of each all-reduce; zero: the group's.
  absl::Duration timeout = absl::ZeroDuration();
};

struct WindowOptions {
  // Of this rank, in this window; the same on all ranks. Ranks that differ get an error with kMean (their divisors
  // differ) and kWeighted (by name). It is not noticed with kMeanOverRanks and kSum, whose results do not depend on it.
  int micro_batches = 1;
  // kWeighted only: one weight per micro-batch, finite and not negative.
  std::vector<double> weights = {};
};

struct BucketReport {
  size_t bytes = 0;
  // Since the window began. Finished is when the result was seen to be in memory: at a later MarkReady, or by Finish.
  absl::Duration ready, launched, finished;
};

struct StepReport {
  double divisor = 1;               // by which the sum over ranks and micro-batches was divided; 0: zero_weight
  bool zero_weight = false;         // kWeighted with a total of 0: all gradients are 0, nothing was reduced
  size_t bytes = 0;                 // reduced, in all buckets
  int collectives = 0;              // all-reduces of gradients
  absl::Duration exposed;           // time that Finish spent waiting for communication
  absl::Duration window;            // from BeginWindow to the end of Finish
  std::vector<std::string> unused;  // parameters without a gradient on any rank; their views were left as they were
  std::vector<BucketReport> buckets;
};

// Buckets of gradients of one model on one rank, in library memory; a parameter's gradient is a view into them. Buckets
// hold parameters of one type, from the last registered to the first, and are reduced in that order; one is launched as
// soon as all of its gradients of the window's last micro-batch are ready and the buckets before it are launched.
//
// The life of a window:
//
//   idle --BeginWindow--> open --BeginMicroBatch--> micro-batch 1 .. A --Finish--> idle
//
// Out of order calls are kFailedPrecondition, say which call was expected, and change nothing. An error of Finish once
// all micro-batches have begun is final: it is or becomes the group's error, and reaches all ranks. All ranks make the
// same calls.
//
// MarkReady may be called from any thread, and never waits for other ranks; the other calls from one thread at a time.
//
// The group must outlive the bucketer. Destruction is local and bounded. In mid-window it leaves the group usable only
// if nothing is in flight; all-reduces in flight would lose their memory, so they are ended by ProcessGroup::Abort.
class GradientBucketer {
 public:
  // A collective: compares the parameters and options of all ranks. A difference is kInvalidArgument on every rank and
  // names the ranks, the parameter and both sides; it does not harm the group. A rank that
  // cannot take part (a parameter that is refused, no memory) fails all ranks with its reason. Different names alone
  // are only logged, unless a name has another place on another rank.
  static absl::StatusOr<std::unique_ptr<GradientBucketer>> Create(ProcessGroup& group,
                                                                  std::vector<Parameter> parameters,
                                                                  const BucketerOptions& options = {});
  virtual ~GradientBucketer() = default;
  GradientBucketer(const GradientBucketer&) = delete;
  GradientBucketer& operator=(const GradientBucketer&) = delete;

  // The gradient of a parameter, by its position at registration. Contiguous, valid as long as the bucketer, and always
  // at the same address; empty if there is no such parameter. BeginWindow sets it to zero if the previous window
  // reduced it; backward adds to it, in every micro-batch; after Finish it holds the result. Must not be touched
  // between MarkReady of the last micro-batch and Finish.
  virtual Tensor gradient(int parameter) const = 0;

  virtual absl::Status BeginWindow(const WindowOptions& options = {}) = 0;
  virtual absl::Status BeginMicroBatch() = 0;
  // This micro-batch's gradient of the parameter is complete; also of one without elements. Twice in one micro-batch is
  // an error that names it. A parameter that only some of the window's micro-batches mark has the sum of these.
  virtual absl::Status MarkReady(int parameter) = 0;
  // Waits until every gradient is reduced and scaled.
  virtual absl::StatusOr<StepReport> Finish() = 0;

  // Micro-batches of the window that have not begun yet, and the one that is not finished: 0 when idle. Gradients are
  // sums of this rank alone as long as this is not 0.
  virtual int pending_micro_batches() const = 0;

 protected:
  GradientBucketer() = default;
};

}  // namespace tutti

#endif  // TUTTI_GRADIENT_BUCKETER_H_
