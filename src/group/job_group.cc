#include "src/group/job_group.h"

#include <fcntl.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "src/base/host.h"
#include "src/base/log.h"
#include "src/base/status_macros.h"
#include "src/base/system_error.h"
#include "src/group/host_group.h"
#include "src/group/host_share.h"
#include "src/group/split.h"
#include "src/rendezvous/membership.h"
#include "src/transport/shm/local_socket.h"
#include "src/transport/shm/shm_transport.h"
#include "src/transport/tcp/tcp_transport.h"

namespace tutti {
namespace {

// Neighbours come at once, or something is wrong.
constexpr absl::Duration kNeighboursPatience = absl::Seconds(10);

// The store and membership of a group, destroyed in this order reversed: the membership says goodbye while the store
// still serves.
class JobControl final : public ControlPlane {
 public:
  JobControl(JobGroupPlan& plan, std::unique_ptr<Membership> membership, std::shared_ptr<VerdictRelay> relay)
      : origin_{.process = plan.process, .name = plan.name, .self = plan.self, .oversubscribed = plan.oversubscribed},
        choices_(std::move(plan.choices)),
        relay_(std::move(relay)),
        store_(std::move(plan.place.store)),
        membership_(std::move(membership)) {}

  void Report(const Trouble& trouble) override {
    switch (trouble.kind) {
      case Trouble::Kind::kPeerLost:
        return membership_->ReportPeerLost(trouble.peer, trouble.status);
      case Trouble::Kind::kMismatch:
        // Without a sequence number nobody else can be asked: this rank's own view is all there is.
        return trouble.sequence == 0 ? relay_->Pronounce(trouble.status)
                                     : membership_->ReportMismatch(trouble.sequence);
      case Trouble::Kind::kDiverged:
        return;  // the next heartbeat shows where
      case Trouble::Kind::kTimeout:
        return membership_->ReportTimeout(trouble.sequence, std::string(trouble.status.message()));
      case Trouble::Kind::kInternal:
        return membership_->ReportAbort(trouble.status);
    }
  }

  void Abort(absl::Status why) override {
    membership_->ReportAbort(why);
    // Should rank 0 be gone, this rank at least ends.
    EventLoop& loop = *origin_.process->loop;
    loop.Post([&loop, relay = relay_, why] {
      loop.After(Engine::kVerdictPatience, [relay, why] {
        relay->Pronounce(absl::AbortedError(absl::StrCat("aborted on this rank: ", why.ToString())));
      });
    });
  }

  absl::StatusOr<std::unique_ptr<ProcessGroup>> Split(ProcessGroup& parent, int color, int key) override {
    return SplitGroup(origin_, parent, color, key);
  }

  std::vector<std::string> Describe() const override { return choices_; }

 private:
  SplitParent origin_;
  const std::vector<std::string> choices_;
  const std::shared_ptr<VerdictRelay> relay_;
  const std::unique_ptr<Store> store_;
  const std::unique_ptr<Membership> membership_;
};

// How to wait, which it adds to the plan's choices; oversubscribed groups stay so when they are split.
EngineOptions EngineOptionsFor(JobGroupPlan& plan, const std::vector<Member>& members) {
  const HostShare share = ShareOfHost(members, plan.self, CpuQuota());
  const bool inherited = plan.oversubscribed && !share.oversubscribed();
  plan.oversubscribed |= share.oversubscribed();
  plan.choices.push_back(absl::StrCat("waiting = ", plan.oversubscribed ? "yields" : "polls", " (", ToString(share),
                                      inherited ? ", and others of the job" : "", ")"));
  EngineOptions options;
  options.yield = plan.oversubscribed;
  if (options.yield) options.spin = absl::Microseconds(30);  // a few turns of everybody
  return options;
}

// Equal for ranks that can share memory.
std::string HostKey(const Member& member) {
  return absl::StrCat(member.identity.host_id, "\n", member.identity.boot_id, "\n", SpaceOf(member.local_address));
}

// The ranks that share memory with this one, itself included; none if one of its host does not want to.
std::vector<ShmNeighbour> NeighboursOf(const std::vector<Member>& members, int rank) {
  const Member& self = members[static_cast<size_t>(rank)];
  std::vector<ShmNeighbour> neighbours;
  for (const Member& member : members) {
    if (member.identity.host_id == self.identity.host_id && member.local_address.empty()) return {};
    if (HostKey(member) == HostKey(self)) {
      neighbours.push_back({.rank = member.identity.rank, .address = member.local_address});
    }
  }
  return neighbours;
}

// See EngineOptions::ranks_per_host: 0 unless the ranks of each host follow each other, and are equally many.
int RanksPerHost(const std::vector<Member>& members) {
  std::vector<size_t> begins;  // of runs of ranks on one host
  std::set<std::string> hosts;
  for (size_t rank = 0; rank < members.size(); ++rank) {
    if (rank > 0 && HostKey(members[rank]) == HostKey(members[rank - 1])) continue;
    begins.push_back(rank);
    if (!hosts.insert(HostKey(members[rank])).second) return 0;
  }
  const size_t each = members.size() / begins.size();
  for (size_t host = 0; host < begins.size(); ++host) {
    if (begins[host] != host * each) return 0;
  }
  const bool share = each == 1 || std::none_of(members.begin(), members.end(),
                                               [](const Member& member) { return member.local_address.empty(); });
  return share && members.size() % begins.size() == 0 ? static_cast<int>(each) : 0;
}

// `endpoint` shares memory with this host's ranks from now on, if they can.
void ShareMemory(const JobGroupPlan& plan, const std::vector<Member>& members, LocalListener listener, Fd wake,
                 std::unique_ptr<Endpoint>& endpoint) {
  ShmOptions options;
  options.neighbours = NeighboursOf(members, plan.self.rank);
  if (options.neighbours.size() < 2) return;
  options.group = plan.self.generation;
  options.listener = std::move(listener.socket);
  options.wake = std::move(wake);
  options.buffers = plan.process->buffers;
  options.deadline = std::min(plan.deadline, absl::Now() + kNeighboursPatience);
  absl::StatusOr<std::unique_ptr<Endpoint>> shared = MakeShmEndpoint(std::move(options), endpoint);
  if (shared.ok()) {
    endpoint = *std::move(shared);
  } else {
    TUTTI_LOG_WARNING("rank {} shares no memory with the others of its host, and takes tcp: {}", plan.self.rank,
                      std::string(shared.status().message()));
  }
}

absl::StatusOr<std::unique_ptr<Membership>> JoinMembership(JobGroupPlan& plan, const SocketAddress& data_address,
                                                           const std::string& local_address, HostGroupParts& parts) {
  EventLoop& loop = *plan.process->loop;
  const MembershipOptions options{.self = plan.self,
                                  .data_address = data_address.ToString(),
                                  .local_address = local_address,
                                  .cpus = AllowedCpus(),
                                  .listen = plan.process->address,
                                  .ports = plan.process->settings.ports,
                                  .deadline = plan.deadline,
                                  .straggler_warning = plan.process->settings.straggler_warning,
                                  .group = plan.name};
  auto pronounce = [relay = parts.relay, name = plan.name](absl::Status verdict) {
    if (name.empty()) return relay->Pronounce(std::move(verdict));
    relay->Pronounce(absl::Status(verdict.code(), absl::StrCat("in the group ", name, ": ", verdict.message())));
  };
  MembershipPlace& place = plan.place;
  if (place.store != nullptr) {
    return Membership::Join(loop, *place.store, options, *parts.journal, std::move(pronounce));
  }
  return Membership::JoinAt(loop, place.server, std::move(place.listener), options, *parts.journal,
                            std::move(pronounce));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProcessGroup>> JoinGroup(JobGroupPlan plan) {
  const Settings& settings = plan.process->settings;
  if (!plan.listener.valid()) {
    TUTTI_ASSIGN_OR_RETURN(plan.listener, Listen(plan.process->address, settings.ports));
  }
  TUTTI_ASSIGN_OR_RETURN(const SocketAddress data_address, LocalAddress(plan.listener.get()));
  LocalListener local;
  if (settings.shared_memory) {
    TUTTI_ASSIGN_OR_RETURN(local, ListenLocally());
  }
  Fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return SystemError(errno, "eventfd");
  HostGroupParts parts;
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<Membership> membership, JoinMembership(plan, data_address, local.name, parts));

  TcpOptions tcp;
  for (const Member& member : membership->members()) tcp.ranks.push_back({member.identity, member.data_address});
  tcp.rank = plan.self.rank;
  tcp.listener = std::move(plan.listener);
  tcp.congestion = settings.tcp_congestion;
  tcp.sockets_per_peer = settings.sockets_per_peer;
  tcp.connect_timeout = settings.timeout;
  tcp.wake = Fd(::fcntl(wake.get(), F_DUPFD_CLOEXEC, 0));
  TUTTI_ASSIGN_OR_RETURN(parts.endpoint, MakeTcpEndpoint(std::move(tcp)));
  ShareMemory(plan, membership->members(), std::move(local), std::move(wake), parts.endpoint);
  parts.buffers = plan.process->buffers;

  parts.engine = EngineOptionsFor(plan, membership->members());
  parts.engine.selection = plan.process->selection;
  parts.engine.ranks_per_host = RanksPerHost(membership->members());
  parts.timeout = settings.timeout;
  plan.choices.push_back(absl::StrCat("data address = ", data_address.ToString()));
  parts.control = std::make_unique<JobControl>(plan, std::move(membership), parts.relay);
  std::unique_ptr<ProcessGroup> group = MakeHostGroup(std::move(parts));
  TUTTI_LOG_DEBUG("group{}{}:\n{}", plan.name.empty() ? "" : " ", plan.name, group->Describe());
  return group;
}

}  // namespace tutti
