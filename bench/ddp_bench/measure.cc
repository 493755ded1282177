#include "bench/ddp_bench/measure.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <utility>

#include "bench/ddp_bench/compute.h"
#include "src/base/status_macros.h"

namespace tutti {
namespace {

constexpr size_t kPeriod = 16;
using Values = std::array<float, kPeriod>;

// Small whole numbers, whose sums are exact; another pattern in every parameter and step, so that nothing that was left
// behind passes for a result.
float Gradient(int rank, int parameter, int step, size_t index) {
  return static_cast<float>(
      (index + 3 * static_cast<size_t>(rank) + 5 * static_cast<size_t>(parameter) + 7 * static_cast<size_t>(step)) %
      kPeriod);
}

Values GradientPattern(int rank, int parameter, int step) {
  Values values;
  for (size_t i = 0; i < kPeriod; ++i) values[i] = Gradient(rank, parameter, step, i);
  return values;
}

class Trainer {
 public:
  Trainer(ProcessGroup& group, const Model& model, const DdpOptions& options, GradientBucketer& bucketer)
      : group_(group), model_(model), options_(options), bucketer_(bucketer), passes_(model.parameters.size(), 0) {
    for (int p = 0; p < parameter_count(); ++p) gradients_.push_back(bucketer.gradient(p).as<float>());
  }

  // The work of the parameters, in proportion to their sizes, so that the step without communication takes as long as
  // it is to take. The same on all ranks, as if they were equal.
  absl::Status Calibrate() {
    const double target = options_.compute_milliseconds.value_or(model_.compute_milliseconds);
    double speed = ComputePassesPerMillisecond();
    TUTTI_RETURN_IF_ERROR(group_.AllReduce(absl::MakeSpan(&speed, 1), {.op = ReduceOp::kMin}).Wait());
    // From how long it takes with the work so far; the first round finds out how long the gradients take to be written.
    double passes = 0;
    for (int round = 0; round < 3; ++round) {
      TUTTI_ASSIGN_OR_RETURN(const double milliseconds, UndisturbedCompute());
      passes = std::max(0.0, passes + (target - milliseconds) * speed);
      SharePasses(passes);
    }
    return absl::OkStatus();
  }

  absl::Status RunStep(bool timed) {
    ++step_;
    TUTTI_ASSIGN_OR_RETURN(const double compute, Compute());
    TUTTI_ASSIGN_OR_RETURN(const double step, Step());
    CountWrong();
    ++step_;
    TUTTI_ASSIGN_OR_RETURN(const double communication, Communicate());
    CountWrong();
    if (!timed) return absl::OkStatus();
    measurement_.compute.push_back(compute);
    measurement_.step.push_back(step);
    measurement_.communication.push_back(communication);
    return absl::OkStatus();
  }

  absl::StatusOr<Measurement> Result() && {
    for (std::vector<double>* times : {&measurement_.compute, &measurement_.step, &measurement_.communication}) {
      TUTTI_RETURN_IF_ERROR(group_.AllReduce(absl::MakeSpan(*times), {.op = ReduceOp::kMax}).Wait());
    }
    TUTTI_RETURN_IF_ERROR(group_.AllReduce(absl::MakeSpan(&measurement_.wrong_elements, 1)).Wait());
    return std::move(measurement_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  static double MillisecondsSince(Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  }

  // The slowest rank's; the best of five attempts, as other programs can only add to it.
  absl::StatusOr<double> UndisturbedCompute() {
    std::array<double, 5> times;
    for (double& time : times) {
      TUTTI_ASSIGN_OR_RETURN(time, Compute());
    }
    TUTTI_RETURN_IF_ERROR(group_.AllReduce(absl::MakeSpan(times), {.op = ReduceOp::kMax}).Wait());
    return *std::min_element(times.begin(), times.end());
  }

  void SharePasses(double passes) {
    const auto elements = static_cast<double>(ElementCount(model_));
    for (size_t p = 0; p < passes_.size(); ++p) {
      const double share = static_cast<double>(ElementCount(model_.parameters[p])) / elements;
      passes_[p] = static_cast<int64_t>(passes * share + 0.5);
    }
  }

  int parameter_count() const { return static_cast<int>(model_.parameters.size()); }

  void WriteGradient(int p) {
    const Values values = GradientPattern(group_.rank(), p, step_);
    const absl::Span<float> gradient = gradients_[p];
    for (size_t i = 0; i < gradient.size(); i += kPeriod) {
      std::copy_n(values.begin(), std::min(kPeriod, gradient.size() - i), gradient.begin() + i);
    }
  }

  absl::StatusOr<double> Compute() {
    TUTTI_RETURN_IF_ERROR(group_.Barrier().Wait());
    const Clock::time_point start = Clock::now();
    // A loop without the library clears its gradients too.
    for (const absl::Span<float> gradient : gradients_) std::fill(gradient.begin(), gradient.end(), 0.0f);
    for (int p = parameter_count() - 1; p >= 0; --p) {
      tutti::Compute(passes_[p]);
      WriteGradient(p);
    }
    return MillisecondsSince(start);
  }

  absl::StatusOr<double> Step() {
    TUTTI_RETURN_IF_ERROR(group_.Barrier().Wait());
    const Clock::time_point start = Clock::now();
    TUTTI_RETURN_IF_ERROR(bucketer_.BeginWindow());
    TUTTI_RETURN_IF_ERROR(bucketer_.BeginMicroBatch());
    for (int p = parameter_count() - 1; p >= 0; --p) {
      tutti::Compute(passes_[p]);
      WriteGradient(p);
      TUTTI_RETURN_IF_ERROR(bucketer_.MarkReady(p));
    }
    TUTTI_ASSIGN_OR_RETURN(const StepReport report, bucketer_.Finish());
    const double elapsed = MillisecondsSince(start);
    measurement_.divisor = report.divisor;
    measurement_.bytes = report.bytes;
    measurement_.collectives = report.collectives;
    return elapsed;
  }

  absl::StatusOr<double> Communicate() {
    TUTTI_RETURN_IF_ERROR(bucketer_.BeginWindow());
    TUTTI_RETURN_IF_ERROR(bucketer_.BeginMicroBatch());
    for (int p = 0; p < parameter_count(); ++p) WriteGradient(p);
    TUTTI_RETURN_IF_ERROR(group_.Barrier().Wait());
    const Clock::time_point start = Clock::now();
    for (int p = parameter_count() - 1; p >= 0; --p) TUTTI_RETURN_IF_ERROR(bucketer_.MarkReady(p));
    TUTTI_RETURN_IF_ERROR(bucketer_.Finish().status());
    return MillisecondsSince(start);
  }

  void CountWrong() {
    if (options_.corrupt_one_element && group_.rank() == 0) gradients_[0][0] += 1;
    for (int p = 0; p < parameter_count(); ++p) {
      Values expected = {};
      for (int rank = 0; rank < group_.size(); ++rank) {
        for (size_t i = 0; i < kPeriod; ++i) expected[i] += Gradient(rank, p, step_, i);
      }
      for (float& value : expected) value /= static_cast<float>(group_.size());
      const absl::Span<const float> gradient = gradients_[p];
      for (size_t i = 0; i < gradient.size(); ++i) measurement_.wrong_elements += gradient[i] != expected[i % kPeriod];
    }
  }

  ProcessGroup& group_;
  const Model& model_;
  const DdpOptions& options_;
  GradientBucketer& bucketer_;
  std::vector<absl::Span<float>> gradients_;
  std::vector<int64_t> passes_;  // of each parameter
  int step_ = 0;
  Measurement measurement_;
};

}  // namespace

absl::StatusOr<Measurement> MeasureTraining(ProcessGroup& group, const Model& model, const DdpOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<GradientBucketer> bucketer,
                         GradientBucketer::Create(
                             group, model.parameters,
                             {.bucket_bytes = options.bucket_bytes, .first_bucket_bytes = options.first_bucket_bytes}));
  Trainer trainer(group, model, options, *bucketer);
  TUTTI_RETURN_IF_ERROR(trainer.Calibrate());
  for (int step = -options.warmup_steps; step < options.steps; ++step) {
    TUTTI_RETURN_IF_ERROR(trainer.RunStep(step >= 0));
  }
  return std::move(trainer).Result();
}

}  // namespace tutti
