// Membership: who the ranks are, and the one verdict when the group fails.
//
// Rank 0 serves; every rank, 0 included, is a client with one connection that stays open. Over it the ranks introduce
// themselves, learn about each other, send heartbeats, and report what went wrong. The server decides on *one* verdict,
// with the culprit's name, and tells it to everybody: so all ranks fail with the same status, not only the culprit's
// neighbours, and nobody blames a rank that merely waited for the culprit.
//
//   report                         verdict
//   connection ended without Leave  dead: "rank 2 (host, pid 4711) died during all-reduce ... (sequence 17)"
//   PeerLost                        dead, if its own connection ends as well within a short grace; else "cannot reach"
//   Mismatch, or heartbeats whose   mismatched: every rank is asked for its operation of that sequence number; the
//     histories differ              message groups the ranks by what they called
//   Timeout                         late: every rank is asked how far it is; the message names those that have not
//                                   arrived, and whether they are alive, or silent since when
//   Abort                           the status given, with the rank's name
//   silence beyond heartbeat_limit  dead: host silent
//
// If rank 0 itself dies, its clients' connections end, and each client reaches that verdict alone.

#ifndef TUTTI_SRC_RENDEZVOUS_MEMBERSHIP_H_
#define TUTTI_SRC_RENDEZVOUS_MEMBERSHIP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "src/base/cpu_set.h"
#include "src/base/event_loop.h"
#include "src/base/fd.h"
#include "src/base/socket.h"
#include "src/identity/hello.h"
#include "src/observe/journal.h"
#include "src/store/store.h"

namespace tutti {

struct Member {
  Identity identity;
  std::string data_address = {};   // of its data listener, as SocketAddress::Parse takes it
  std::string local_address = {};  // of its listener for ranks on the same host; "": it has none
  CpuSet cpus = {};                // on which it may run
};

struct MembershipOptions {
  Identity self;
  std::string data_address, local_address;
  CpuSet cpus = {};
  // Where rank 0 serves (port 0: any of the range).
  SocketAddress listen;
  PortRange ports;
  absl::Time deadline;  // of Join
  absl::Duration heartbeat_interval = absl::Milliseconds(250);
  // Silence after which a rank counts as dead even though nobody waits for it. Long, because a stopped process may go
  // on; who waits for it is bounded by the operation's own deadline.
  absl::Duration heartbeat_limit = absl::Seconds(60);
  // Waiting for others in a collective, after which the server logs who is missing.
  absl::Duration straggler_warning = absl::Seconds(30);
  // How the log names the group; "": not at all.
  std::string group = {};
  // How long the server gathers answers and the end of connections before it pronounces.
  absl::Duration grace = absl::Milliseconds(300);
};

class Membership {
 public:
  // A collective: returns when all ranks have joined. The server's address goes through `store`. Errors, on every rank
  // that is concerned: a rank taken twice (named on both sides), another world size, job, version or configuration; at
  // the deadline the missing ranks, with the hosts of those present and the processes that were refused. The earliest
  // deadline of those present counts: without that rank the others cannot go on either. A temporary refusal
  // (come_again.h) means that `store` and server are those of a group that is about to end. Not from the loop's thread.
  //
  // `journal` is consulted on the loop's thread, and `verdict` called on it at most once, until the destructor returns.
  static absl::StatusOr<std::unique_ptr<Membership>> Join(EventLoop& loop, Store& store,
                                                          const MembershipOptions& options, const Journal& journal,
                                                          absl::AnyInvocable<void(absl::Status)> verdict);
  // The same without a store, for ranks that know where rank 0 serves. It listens there already: `listener`, which the
  // others leave invalid.
  static absl::StatusOr<std::unique_ptr<Membership>> JoinAt(EventLoop& loop, const SocketAddress& server, Fd listener,
                                                            const MembershipOptions& options, const Journal& journal,
                                                            absl::AnyInvocable<void(absl::Status)> verdict);

  // Leaves in order: tells the server, waits a short bounded time for its answer; rank 0 waits (bounded) for the others
  // to leave first. Leaving is no failure, but who waits for a rank that left is told so.
  virtual ~Membership() = default;

  // By rank.
  virtual const std::vector<Member>& members() const = 0;

  // Reports; any thread, return at once. The verdict comes by callback; if it does not come within about a second (the
  // server is gone), the reporter goes by its own observation.
  virtual void ReportPeerLost(int peer, absl::Status why) = 0;
  virtual void ReportMismatch(uint32_t sequence) = 0;
  // `detail` is the local view: operation, sequence, elapsed time. 0: no collective, so that nobody can be asked for
  // it.
  virtual void ReportTimeout(uint32_t sequence, std::string detail) = 0;
  virtual void ReportAbort(absl::Status why) = 0;

 protected:
  Membership() = default;
};

}  // namespace tutti

#endif  // TUTTI_SRC_RENDEZVOUS_MEMBERSHIP_H_
