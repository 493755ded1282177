#include "src/ddp/window.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/base/status_macros.h"
#include "src/ddp/parameters.h"

namespace tutti {

Window::Window(const BucketPlan& plan, absl::Span<const std::string> names)
    : plan_(plan),
      names_(names),
      marked_in_(plan.views.size()),
      missing_(plan.buckets.size()),
      ready_at_(plan.buckets.size()) {}

absl::Status Window::CheckBegin(int micro_batches) const {
  if (phase_ != Phase::kIdle) return OutOfOrder("BeginWindow");
  if (micro_batches < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("BeginWindow: a window has at least one micro-batch, not ", micro_batches));
  }
  return absl::OkStatus();
}

void Window::Begin(int micro_batches) {
  phase_ = Phase::kOpen;
  declared_ = micro_batches;
  begun_ = 0;
  std::fill(marked_in_.begin(), marked_in_.end(), 0);
  ready_buckets_ = 0;
}

absl::Status Window::BeginMicroBatch() {
  if (phase_ != Phase::kOpen || begun_ == declared_) return OutOfOrder("BeginMicroBatch");
  if (++begun_ == declared_) {
    for (size_t b = 0; b < missing_.size(); ++b) missing_[b] = static_cast<int>(plan_.buckets[b].parameters.size());
  }
  return absl::OkStatus();
}

absl::Status Window::Mark(int parameter) {
  if (parameter < 0 || static_cast<size_t>(parameter) >= marked_in_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("MarkReady: there is no parameter ", parameter, " among ", marked_in_.size()));
  }
  if (phase_ != Phase::kOpen || begun_ == 0) {
    return OutOfOrder(absl::StrCat("MarkReady of ", ParameterLabel(parameter, names_[parameter])));
  }
  if (marked_in_[parameter] == begun_) {
    return absl::FailedPreconditionError(
        absl::StrCat("MarkReady: ", ParameterLabel(parameter, names_[parameter]), " is marked for the second time in ",
                     "micro-batch ", begun_, " of ", declared_, "; mark it once, after its last use in backward"));
  }
  marked_in_[parameter] = begun_;
  return absl::OkStatus();
}

void Window::Complete(int parameter, absl::Duration now) {
  if (begun_ != declared_) return;
  const BucketPlan::View& view = plan_.views[parameter];
  for (int b = view.first_bucket; b < view.end_bucket; ++b) {
    if (--missing_[b] == 0) ready_at_[b] = now;
  }
  while (static_cast<size_t>(ready_buckets_) < missing_.size() && missing_[ready_buckets_] == 0) ++ready_buckets_;
}

absl::Status Window::BeginFinish() {
  if (phase_ != Phase::kOpen || begun_ != declared_) return OutOfOrder("Finish");
  phase_ = Phase::kFinishing;
  return absl::OkStatus();
}

std::vector<int> Window::Unmarked() const {
  std::vector<int> unmarked;
  for (size_t p = 0; p < marked_in_.size(); ++p) {
    if (marked_in_[p] == 0) unmarked.push_back(static_cast<int>(p));
  }
  return unmarked;
}

void Window::CompleteRest(absl::Duration now) {
  for (size_t p = 0; p < marked_in_.size(); ++p) {
    if (marked_in_[p] != begun_) Complete(static_cast<int>(p), now);
  }
}

void Window::End() { phase_ = Phase::kIdle; }

int Window::pending_micro_batches() const {
  if (phase_ == Phase::kIdle) return 0;
  return declared_ - begun_ + (begun_ > 0 ? 1 : 0);
}

absl::Status Window::OutOfOrder(absl::string_view call) const {
  return absl::FailedPreconditionError(absl::StrCat(call, ": ", State()));
}

std::string Window::State() const {
  if (phase_ == Phase::kIdle) return "no window is open; expected BeginWindow";
  if (phase_ == Phase::kFinishing) return "the window is being finished";
  const std::string progress = absl::StrCat(begun_, " of ", declared_, " micro-batches have begun; expected ");
  if (begun_ == declared_) return absl::StrCat(progress, "MarkReady of what is not ready, then Finish");
  return absl::StrCat(progress, begun_ == 0 ? "" : "MarkReady or ", "BeginMicroBatch");
}

}  // namespace tutti
