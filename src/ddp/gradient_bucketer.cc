#include "tutti/gradient_bucketer.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "src/base/status_macros.h"
#include "src/ddp/bucket_plan.h"
#include "src/ddp/gradient_storage.h"
#include "src/ddp/parameters.h"
#include "src/ddp/plan_agreement.h"
#include "src/ddp/scale.h"
#include "src/ddp/window.h"

namespace tutti {
namespace {

class Bucketer final : public GradientBucketer {
 public:
  static absl::StatusOr<std::unique_ptr<GradientBucketer>> Make(ProcessGroup& group,
                                                                const std::vector<Parameter>& parameters,
                                                                const BucketerOptions& options);
  ~Bucketer() override;

  Tensor gradient(int parameter) const override;
  absl::Status BeginWindow(const WindowOptions& options) override;
  absl::Status BeginMicroBatch() override;
  absl::Status MarkReady(int parameter) override;
  absl::StatusOr<StepReport> Finish() override;
  int pending_micro_batches() const override;

 private:
  struct Launch {
    Work work;
    absl::Duration launched, finished;
  };
  // The contents of views that this rank left without a gradient.
  struct Idle {
    int parameter;
    std::vector<std::byte> contents;
  };

  Bucketer(ProcessGroup& group, const BucketerOptions& options, std::vector<std::string> names,
           std::unique_ptr<const BucketPlan> plan, GradientStorage storage)
      : group_(group),
        options_(options),
        names_(std::move(names)),
        plan_(std::move(plan)),
        storage_(std::move(storage)),
        reduced_(names_.size()),
        used_(names_.size()),
        window_(*plan_, names_) {}

  absl::Status CheckUsable() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Duration Elapsed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AwaitMarks() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LaunchReady() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool KnowDivisor() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ObserveFinished() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::StatusOr<StepReport> Reduce(const std::vector<int>& unmarked);
  absl::Status UnmarkedError(const std::vector<int>& unmarked) const;
  absl::Status AwaitDivisor();
  void LaunchRest();
  Work ShareUsage(const std::vector<int>& unmarked);
  absl::Status AwaitBuckets();
  void Publish(const std::vector<Idle>& idle);
  StepReport Report();

  ProcessGroup& group_;
  const BucketerOptions options_;
  const std::vector<std::string> names_;
  const std::unique_ptr<const BucketPlan> plan_;
  // A parameter's memory belongs to the caller of its MarkReady until it is complete, to its buckets' operations until
  // they are done, and otherwise to the caller of BeginWindow or Finish.
  const GradientStorage storage_;

  // Of the one thread that calls BeginWindow and Finish.
  std::vector<bool> reduced_;  // per parameter: by the last window
  std::vector<uint8_t> used_;  // per parameter: with a gradient in this window, on any rank once reduced
  WeightExchange weights_;     // started by BeginWindow; then only waited for

  mutable absl::Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  Window window_ ABSL_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point began_ ABSL_GUARDED_BY(mutex_);
  std::optional<double> divisor_ ABSL_GUARDED_BY(mutex_);  // 0: no weight, so nothing is reduced
  std::vector<Launch> launches_ ABSL_GUARDED_BY(mutex_);   // in plan order
  size_t finished_ ABSL_GUARDED_BY(mutex_) = 0;            // launches that have been seen to be done
  bool launching_ ABSL_GUARDED_BY(mutex_) = false;         // by one thread, which lets go of the mutex in between
  int active_marks_ ABSL_GUARDED_BY(mutex_) = 0;           // MarkReady calls that have claimed their parameter
};

ModelDescription Describe(absl::Span<const Parameter> parameters, const BucketerOptions& options) {
  ModelDescription description;
  description.options = {{"scale", std::string(Name(options.scale))},
                         {"accumulate_in_fp32", options.accumulate_in_fp32 ? "true" : "false"},
                         {"find_unused_parameters", options.find_unused_parameters ? "true" : "false"},
                         {"bucket_bytes", absl::StrCat(options.bucket_bytes)},
                         {"first_bucket_bytes", absl::StrCat(options.first_bucket_bytes)}};
  for (const Parameter& parameter : parameters) {
    description.parameters.emplace_back(parameter.name, TypeAndShape(parameter));
  }
  return description;
}

absl::StatusOr<std::unique_ptr<GradientBucketer>> Bucketer::Make(ProcessGroup& group,
                                                                 const std::vector<Parameter>& parameters,
                                                                 const BucketerOptions& options) {
  if (options.scale > ScaleMode::kWeighted) {
    return absl::InvalidArgumentError(absl::StrCat("there is no scale mode ", static_cast<int>(options.scale)));
  }
  TUTTI_ASSIGN_OR_RETURN(const std::vector<size_t> counts, CountElements(parameters));
  std::vector<PlannedTensor> tensors;
  std::vector<std::string> names;
  for (size_t p = 0; p < parameters.size(); ++p) {
    tensors.push_back({.type = parameters[p].type, .count = counts[p]});
    names.push_back(parameters[p].name);
  }
  TUTTI_ASSIGN_OR_RETURN(BucketPlan planned,
                         MakeBucketPlan(tensors, {.bucket_bytes = options.bucket_bytes,
                                                  .first_bucket_bytes = options.first_bucket_bytes,
                                                  .accumulate_in_fp32 = options.accumulate_in_fp32}));
  auto plan = std::make_unique<const BucketPlan>(std::move(planned));
  TUTTI_ASSIGN_OR_RETURN(GradientStorage storage, GradientStorage::Create(group, *plan));
  return std::unique_ptr<GradientBucketer>(
      new Bucketer(group, options, std::move(names), std::move(plan), std::move(storage)));
}

// The memory of an operation in flight must not go away, and its peers may never come: end it.
Bucketer::~Bucketer() {
  const bool done = std::all_of(launches_.begin(), launches_.end(), [](const Launch& l) { return l.work.Done(); });
  if (done && weights_.Done()) return;
  group_.Abort(absl::CancelledError("a gradient bucketer was destroyed while its all-reduces were in flight"));
  for (Launch& launch : launches_) launch.work.Wait().IgnoreError();
  weights_.Wait().IgnoreError();
}

Tensor Bucketer::gradient(int parameter) const {
  if (parameter < 0 || static_cast<size_t>(parameter) >= names_.size()) return {};
  return storage_.view(parameter);
}

absl::Status Bucketer::BeginWindow(const WindowOptions& options) {
  {
    absl::MutexLock lock(&mutex_);
    TUTTI_RETURN_IF_ERROR(CheckUsable());
    TUTTI_RETURN_IF_ERROR(window_.CheckBegin(options.micro_batches));
  }
  TUTTI_RETURN_IF_ERROR(CheckWeights(options_.scale, options));
  for (size_t p = 0; p < names_.size(); ++p) {
    if (reduced_[p]) storage_.Clear(static_cast<int>(p));
    reduced_[p] = false;
  }
  const bool weighted = options_.scale == ScaleMode::kWeighted;
  if (weighted) weights_.Start(group_, options, options_.timeout);

  absl::MutexLock lock(&mutex_);
  began_ = std::chrono::steady_clock::now();
  divisor_.reset();
  if (!weighted) divisor_ = DivisorOf(options_.scale, group_.size(), options.micro_batches);
  launches_.clear();
  finished_ = 0;
  window_.Begin(options.micro_batches);
  return absl::OkStatus();
}

absl::Status Bucketer::BeginMicroBatch() {
  absl::MutexLock lock(&mutex_);
  TUTTI_RETURN_IF_ERROR(CheckUsable());
  AwaitMarks();
  return window_.BeginMicroBatch();
}

absl::Status Bucketer::MarkReady(int parameter) {
  {
    absl::MutexLock lock(&mutex_);
    TUTTI_RETURN_IF_ERROR(CheckUsable());
    TUTTI_RETURN_IF_ERROR(window_.Mark(parameter));
    ++active_marks_;
  }
  storage_.Accumulate(parameter);
  absl::MutexLock lock(&mutex_);
  window_.Complete(parameter, Elapsed());
  LaunchReady();
  ObserveFinished();
  --active_marks_;
  return absl::OkStatus();
}

absl::StatusOr<StepReport> Bucketer::Finish() {
  std::vector<int> unmarked;
  {
    absl::MutexLock lock(&mutex_);
    TUTTI_RETURN_IF_ERROR(CheckUsable());
    TUTTI_RETURN_IF_ERROR(window_.BeginFinish());
    AwaitMarks();
    unmarked = window_.Unmarked();
  }
  absl::StatusOr<StepReport> report = Reduce(unmarked);
  if (!report.ok()) group_.Abort(report.status());
  absl::MutexLock lock(&mutex_);
  if (report.ok()) window_.End();
  failure_ = report.status();
  return report;
}

int Bucketer::pending_micro_batches() const {
  absl::MutexLock lock(&mutex_);
  return window_.pending_micro_batches();
}

absl::Status Bucketer::CheckUsable() const {
  if (failure_.ok()) return failure_;
  return absl::FailedPreconditionError(
      absl::StrCat("this gradient bucketer cannot be used any more, its Finish has failed: ", failure_.message()));
}

absl::Duration Bucketer::Elapsed() const { return absl::FromChrono(std::chrono::steady_clock::now() - began_); }

void Bucketer::AwaitMarks() {
  mutex_.Await(absl::Condition(
      +[](int* active) { return *active == 0; }, &active_marks_));
}

// One thread at a time launches, so that the order is that of the plan. Others leave their buckets to it: it looks
// again before it stops, without letting go of the mutex in between.
void Bucketer::LaunchReady() {
  if (launching_) return;
  launching_ = true;
  while (launches_.size() < static_cast<size_t>(window_.ready_buckets()) && KnowDivisor()) {
    const Tensor bucket = storage_.bucket(static_cast<int>(launches_.size()));
    const ReduceOptions reduce = {.divisor = *divisor_, .timeout = options_.timeout, .background = true};
    const absl::Duration launched = Elapsed();
    mutex_.Unlock();
    Work work(absl::OkStatus());
    if (reduce.divisor != 0) {
      work = group_.AllReduce(bucket, reduce);
    } else {
      std::memset(bucket.data(), 0, bucket.bytes());
    }
    mutex_.Lock();
    launches_.push_back({.work = std::move(work), .launched = launched, .finished = {}});
  }
  launching_ = false;
}

// Without waiting. An error is left to Finish.
bool Bucketer::KnowDivisor() {
  if (!divisor_.has_value() && weights_.Done()) {
    if (const absl::StatusOr<double> total = weights_.Wait(); total.ok()) divisor_ = *total;
  }
  return divisor_.has_value();
}

void Bucketer::ObserveFinished() {
  const absl::Duration now = Elapsed();
  for (; finished_ < launches_.size() && launches_[finished_].work.Done(); ++finished_) {
    launches_[finished_].finished = now;
  }
}

absl::StatusOr<StepReport> Bucketer::Reduce(const std::vector<int>& unmarked) {
  if (!unmarked.empty() && !options_.find_unused_parameters) return UnmarkedError(unmarked);
  std::vector<Idle> idle;
  idle.reserve(unmarked.size());
  for (const int p : unmarked) idle.push_back({.parameter = p, .contents = storage_.SetAside(p)});

  const auto waiting_since = std::chrono::steady_clock::now();
  TUTTI_RETURN_IF_ERROR(AwaitDivisor());
  LaunchRest();
  Work usage = ShareUsage(unmarked);
  const absl::Status reduced = AwaitBuckets();
  const absl::Status shared = usage.Wait();
  TUTTI_RETURN_IF_ERROR(reduced);
  TUTTI_RETURN_IF_ERROR(shared);
  const auto waited = std::chrono::steady_clock::now() - waiting_since;

  Publish(idle);
  StepReport report = Report();
  report.exposed = absl::FromChrono(waited);
  return report;
}

absl::Status Bucketer::UnmarkedError(const std::vector<int>& unmarked) const {
  constexpr size_t kShown = 8;
  std::vector<std::string> labels;
  for (const int p : unmarked) {
    if (labels.size() < kShown) labels.push_back(ParameterLabel(p, names_[p]));
  }
  if (unmarked.size() > kShown) labels.push_back(absl::StrCat(unmarked.size() - kShown, " more"));
  return absl::FailedPreconditionError(
      absl::StrCat("rank ", group_.rank(), " ended a window without a gradient of ", absl::StrJoin(labels, ", "),
                   "; call MarkReady for every parameter, or set find_unused_parameters if backward may skip some"));
}

absl::Status Bucketer::AwaitDivisor() {
  if (options_.scale != ScaleMode::kWeighted) return absl::OkStatus();
  TUTTI_ASSIGN_OR_RETURN(const double total, weights_.Wait());
  absl::MutexLock lock(&mutex_);
  divisor_ = total;
  return absl::OkStatus();
}

void Bucketer::LaunchRest() {
  absl::MutexLock lock(&mutex_);
  window_.CompleteRest(Elapsed());
  LaunchReady();
}

// After all buckets: only here is the place in the order of collectives the same on all ranks.
Work Bucketer::ShareUsage(const std::vector<int>& unmarked) {
  std::fill(used_.begin(), used_.end(), 1);
  if (!options_.find_unused_parameters) return Work(absl::OkStatus());
  for (const int p : unmarked) used_[p] = 0;
  return group_.AllReduce({used_.data(), used_.size(), DataType::kBool},
                          {.timeout = options_.timeout, .background = true});
}

// Waits for all of them, also after an error: until then their memory is in use.
absl::Status Bucketer::AwaitBuckets() {
  std::vector<Work> works;
  {
    absl::MutexLock lock(&mutex_);
    for (const Launch& launch : launches_) works.push_back(launch.work);
  }
  absl::Status first_error;
  for (size_t b = 0; b < works.size(); ++b) {
    const absl::Status status = works[b].Wait();
    if (!status.ok() && first_error.ok()) {
      const int parameter = plan_->buckets[b].parameters.front();
      first_error = absl::Status(
          status.code(), absl::StrCat("gradient bucket ", b + 1, " of ", works.size(), " (from ",
                                      ParameterLabel(parameter, names_[parameter]), " on): ", status.message()));
    }
    absl::MutexLock lock(&mutex_);
    ObserveFinished();
  }
  return first_error;
}

void Bucketer::Publish(const std::vector<Idle>& idle) {
  for (size_t p = 0; p < used_.size(); ++p) {
    reduced_[p] = used_[p] != 0;
    if (reduced_[p]) storage_.Publish(static_cast<int>(p));
  }
  for (const Idle& view : idle) {
    if (!reduced_[view.parameter]) storage_.PutBack(view.parameter, view.contents);
  }
}

StepReport Bucketer::Report() {
  StepReport report;
  for (size_t p = 0; p < used_.size(); ++p) {
    if (used_[p] == 0) report.unused.push_back(names_[p]);
  }
  absl::MutexLock lock(&mutex_);
  report.divisor = *divisor_;
  report.zero_weight = *divisor_ == 0;
  for (size_t b = 0; b < launches_.size(); ++b) {
    const size_t bytes = storage_.bucket(static_cast<int>(b)).bytes();
    report.buckets.push_back({.bytes = bytes,
                              .ready = window_.ready_at(static_cast<int>(b)),
                              .launched = launches_[b].launched,
                              .finished = launches_[b].finished});
    if (!report.zero_weight) {
      report.bytes += bytes;
      ++report.collectives;
    }
  }
  report.window = Elapsed();
  return report;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GradientBucketer>> GradientBucketer::Create(ProcessGroup& group,
                                                                           std::vector<Parameter> parameters,
                                                                           const BucketerOptions& options) {
  absl::StatusOr<std::unique_ptr<GradientBucketer>> bucketer = Bucketer::Make(group, parameters, options);
  ModelDescription description = Describe(parameters, options);
  description.usable = bucketer.status();
  // Also if this rank cannot take part: the others must hear of it.
  TUTTI_RETURN_IF_ERROR(AgreeOnModel(group, description, options.timeout));
  return bucketer;
}

}  // namespace tutti
