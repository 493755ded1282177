// ProcessGroup::Create: from the environment to a group over tcp.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "src/base/event_loop.h"
#include "src/base/host.h"
#include "src/base/log.h"
#include "src/base/socket.h"
#include "src/base/status_macros.h"
#include "src/group/host_group.h"
#include "src/rendezvous/environment.h"
#include "src/rendezvous/membership.h"
#include "src/rendezvous/rendezvous.h"
#include "src/transport/tcp/tcp_transport.h"
#include "tutti/process_group.h"

namespace tutti {
namespace {

// The loop, store and membership of a group, destroyed in this order reversed: the membership says goodbye while the
// store still serves.
class JobControl final : public ControlPlane {
 public:
  JobControl(std::unique_ptr<EventLoop> loop, std::unique_ptr<Store> store, std::unique_ptr<Membership> membership,
             std::shared_ptr<VerdictRelay> relay, std::vector<std::string> choices)
      : loop_(std::move(loop)),
        store_(std::move(store)),
        membership_(std::move(membership)),
        relay_(std::move(relay)),
        choices_(std::move(choices)) {}

  void Report(const Trouble& trouble) override {
    switch (trouble.kind) {
      case Trouble::Kind::kPeerLost:
        return membership_->ReportPeerLost(trouble.peer, trouble.status);
      case Trouble::Kind::kMismatch:
        // Without a sequence number nobody else can be asked: this rank's own view is all there is.
        return trouble.sequence == 0 ? relay_->Pronounce(trouble.status)
                                     : membership_->ReportMismatch(trouble.sequence);
      case Trouble::Kind::kTimeout:
        return membership_->ReportTimeout(trouble.sequence, std::string(trouble.status.message()));
      case Trouble::Kind::kInternal:
        return membership_->ReportAbort(trouble.status);
    }
  }

  void Abort(absl::Status why) override {
    membership_->ReportAbort(why);
    // Should rank 0 be gone, this rank at least ends.
    loop_->Post([this, why] {
      loop_->After(Engine::kVerdictPatience, [relay = relay_, why] {
        relay->Pronounce(absl::AbortedError(absl::StrCat("aborted on this rank: ", why.ToString())));
      });
    });
  }

  std::vector<std::string> Describe() const override { return choices_; }

 private:
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Membership> membership_;
  std::shared_ptr<VerdictRelay> relay_;
  std::vector<std::string> choices_;
};

int RanksOnHost(const std::vector<Member>& members, const std::string& host_id) {
  int count = 0;
  for (const Member& member : members) count += member.identity.host_id == host_id ? 1 : 0;
  return count;
}

EngineOptions EngineOptionsFor(int ranks_on_host) {
  EngineOptions options;
  options.yield = ranks_on_host > UsableCpus();
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProcessGroup>> ProcessGroup::Create(const ProcessGroupOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(Settings settings, ResolveSettings(options, Environment::OfProcess()));
  SetLogLevel(settings.log_level);
  const absl::Time deadline = absl::Now() + settings.timeout;
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<EventLoop> loop, EventLoop::Start("tutti-control"));
  TUTTI_ASSIGN_OR_RETURN(MeetingPoint point, Meet(*loop, settings, deadline));

  TUTTI_ASSIGN_OR_RETURN(Fd listener, Listen(point.address, settings.ports));
  TUTTI_ASSIGN_OR_RETURN(SocketAddress data_address, LocalAddress(listener.get()));
  HostGroupParts parts;
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<Membership> membership,
                         Membership::Join(*loop, *point.store,
                                          {.self = point.self,
                                           .data_address = data_address.ToString(),
                                           .listen = point.address,
                                           .ports = settings.ports,
                                           .deadline = deadline},
                                          *parts.journal, [relay = parts.relay](absl::Status verdict) {
                                            relay->Pronounce(std::move(verdict));
                                          }));

  TcpOptions tcp;
  for (const Member& member : membership->members()) tcp.ranks.push_back({member.identity, member.data_address});
  tcp.rank = settings.rank;
  tcp.listener = std::move(listener);
  tcp.congestion = settings.tcp_congestion;
  tcp.connect_timeout = settings.timeout;
  TUTTI_ASSIGN_OR_RETURN(parts.endpoint, MakeTcpEndpoint(std::move(tcp)));

  parts.engine = EngineOptionsFor(RanksOnHost(membership->members(), point.self.host_id));
  parts.timeout = settings.timeout;
  std::vector<std::string> choices = std::move(settings.origins);
  for (std::string& choice : point.choices) choices.push_back(std::move(choice));
  choices.push_back(absl::StrCat("data address = ", data_address.ToString()));
  parts.control = std::make_unique<JobControl>(std::move(loop), std::move(point.store), std::move(membership),
                                               parts.relay, std::move(choices));
  return MakeHostGroup(std::move(parts));
}

}  // namespace tutti
