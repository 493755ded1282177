// ProcessGroup::Create: from the environment to a group.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "src/base/event_loop.h"
#include "src/base/log.h"
#include "src/base/status_macros.h"
#include "src/engine/selection.h"
#include "src/group/job_group.h"
#include "src/rendezvous/come_again.h"
#include "src/rendezvous/environment.h"
#include "src/rendezvous/rendezvous.h"
#include "src/rendezvous/shared_settings.h"
#include "tutti/process_group.h"

namespace tutti {
namespace {

// While rank 0's last group is about to end.
constexpr absl::Duration kFirstPause = absl::Milliseconds(10);
constexpr absl::Duration kPauseMax = absl::Milliseconds(500);

absl::StatusOr<std::unique_ptr<ProcessGroup>> MeetAndJoin(std::shared_ptr<EventLoop> loop, Settings settings,
                                                          absl::Time deadline) {
  TUTTI_ASSIGN_OR_RETURN(MeetingPoint point, Meet(*loop, settings, deadline));
  TUTTI_ASSIGN_OR_RETURN(const std::vector<std::string> overruled, ShareSettings(*point.store, settings, deadline));
  for (const std::string& difference : overruled) TUTTI_LOG_WARNING("settings: {}", difference);

  TUTTI_ASSIGN_OR_RETURN(SelectionTable selection, ParseSelectionTable(settings.selection));
  JobGroupPlan plan;
  plan.choices = settings.origins;
  for (std::string& choice : point.choices) plan.choices.push_back(std::move(choice));
  plan.process = std::make_shared<const JobProcess>(
      JobProcess{std::move(loop), std::move(settings), point.address, std::move(selection)});
  plan.self = point.self;
  plan.place.store = std::move(point.store);
  plan.deadline = deadline;
  return JoinGroup(std::move(plan));
}

// This rank's own rules, whatever rank 0's are: what is wrong here is to be known here, and before any socket is
// opened.
absl::Status CheckSelection(const ProcessGroupOptions& options, const Settings& settings) {
  absl::Status status = ParseSelectionTable(settings.selection).status();
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(options.selection.empty() ? "TUTTI_SELECTION" : "option selection",
                                                  ": ", status.message()));
}

// A mutex costs a few nanoseconds, unless Abseil looks for deadlocks at every lock. It does if it was built without
// NDEBUG, as Debian's was, which says nothing about how this library was built.
void TakeMutexesAsBuilt() {
#ifdef NDEBUG
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
#endif
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProcessGroup>> ProcessGroup::Create(const ProcessGroupOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(const Settings settings, ResolveSettings(options, Environment::OfProcess()));
  TUTTI_RETURN_IF_ERROR(CheckSelection(options, settings));
  SetLogLevel(settings.log_level);
  TakeMutexesAsBuilt();
  const absl::Time deadline = absl::Now() + settings.timeout;
  TUTTI_ASSIGN_OR_RETURN(const std::shared_ptr<EventLoop> loop, EventLoop::Start("tutti-control"));
  absl::Duration pause = kFirstPause;
  std::string refusal;  // the last one
  while (true) {
    absl::StatusOr<std::unique_ptr<ProcessGroup>> group = MeetAndJoin(loop, settings, deadline);
    if (group.ok()) return group;
    const absl::Status& status = group.status();
    if (!IsComeAgain(status) && refusal.empty()) return group;
    if (!IsComeAgain(status) || absl::Now() + pause >= deadline) {
      if (IsComeAgain(status)) return absl::DeadlineExceededError(status.message());
      return absl::Status(status.code(), absl::StrCat(status.message(), "; before that: ", refusal));
    }
    refusal = std::string(status.message());
    TUTTI_LOG_DEBUG("rendezvous: comes again in {}, because: {}", absl::FormatDuration(pause), refusal);
    absl::SleepFor(pause);
    pause = std::min(2 * pause, kPauseMax);
  }
}

}  // namespace tutti
