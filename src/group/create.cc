// ProcessGroup::Create: from the environment to a group.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "src/base/event_loop.h"
#include "src/base/log.h"
#include "src/base/status_macros.h"
#include "src/group/job_group.h"
#include "src/rendezvous/environment.h"
#include "src/rendezvous/rendezvous.h"
#include "src/rendezvous/shared_settings.h"
#include "tutti/process_group.h"

namespace tutti {

absl::StatusOr<std::unique_ptr<ProcessGroup>> ProcessGroup::Create(const ProcessGroupOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(Settings settings, ResolveSettings(options, Environment::OfProcess()));
  SetLogLevel(settings.log_level);
  const absl::Time deadline = absl::Now() + settings.timeout;
  TUTTI_ASSIGN_OR_RETURN(std::shared_ptr<EventLoop> loop, EventLoop::Start("tutti-control"));
  TUTTI_ASSIGN_OR_RETURN(MeetingPoint point, Meet(*loop, settings, deadline));

  TUTTI_ASSIGN_OR_RETURN(const std::vector<std::string> overruled, ShareSettings(*point.store, settings, deadline));
  for (const std::string& difference : overruled) TUTTI_LOG_WARNING("settings: {}", difference);

  JobGroupPlan plan;
  plan.choices = settings.origins;
  for (std::string& choice : point.choices) plan.choices.push_back(std::move(choice));
  plan.process = std::make_shared<const JobProcess>(JobProcess{std::move(loop), std::move(settings), point.address});
  plan.self = point.self;
  plan.place.store = std::move(point.store);
  plan.deadline = deadline;
  return JoinGroup(std::move(plan));
}

}  // namespace tutti
