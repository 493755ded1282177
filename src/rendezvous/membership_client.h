// MembershipClient: a rank's connection to the membership server.
//
// Lives on its loop's thread.

#ifndef TUTTI_SRC_RENDEZVOUS_MEMBERSHIP_CLIENT_H_
#define TUTTI_SRC_RENDEZVOUS_MEMBERSHIP_CLIENT_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "src/base/event_loop.h"
#include "src/base/fd.h"
#include "src/base/frame_connection.h"
#include "src/observe/journal.h"
#include "src/rendezvous/membership.h"
#include "src/rendezvous/membership_messages.h"

namespace tutti {

class MembershipClient {
 public:
  struct Callbacks {
    // Once, unless the client is destroyed before.
    absl::AnyInvocable<void(absl::StatusOr<std::vector<Member>>)> joined;
    // At most once, after `joined` with members.
    absl::AnyInvocable<void(absl::Status)> verdict;
  };

  // `socket` is connected to the server. Introduces this rank.
  MembershipClient(EventLoop& loop, Fd socket, const MembershipOptions& options, const Journal& journal,
                   Callbacks callbacks);
  ~MembershipClient();  // closes at once
  MembershipClient(const MembershipClient&) = delete;
  MembershipClient& operator=(const MembershipClient&) = delete;

  // Sends a report; if the server is gone, or has left, the report itself becomes the verdict.
  void Report(MembershipMessage report);

  // Says goodbye. `done` is called once, within `patience`, maybe inline; not to be destroyed in it.
  void Leave(absl::Duration patience, absl::AnyInvocable<void()> done);

 private:
  void OnFrame(const std::string& payload);
  void OnHello(const std::string& payload);
  void OnMessage(const MembershipMessage& message);
  void OnWelcome(const MembershipMessage& message);
  void OnClosed(const absl::Status& why);
  void Answer(uint32_t sequence);
  void Beat();
  void EndWith(absl::Status why);
  absl::Status LocalVerdict(const MembershipMessage& report) const;
  std::optional<OperationNote> Latest() const;

  EventLoop& loop_;
  const MembershipOptions options_;
  const Journal& journal_;
  Callbacks callbacks_;
  const std::string address_;                    // of the server
  std::unique_ptr<FrameConnection> connection_;  // null: ended
  std::optional<Identity> server_;               // once it has said who it is
  std::vector<Identity> members_;                // once welcome
  bool joined_called_ = false;
  bool verdict_called_ = false;
  bool server_left_ = false;
  absl::AnyInvocable<void()> left_;  // set: leaving
  std::optional<EventLoop::TimerId> beat_timer_;
  absl::Time last_beat_, heard_;
  uint32_t told_ = 0;  // the latest operation of which the history is told
};

}  // namespace tutti

#endif  // TUTTI_SRC_RENDEZVOUS_MEMBERSHIP_CLIENT_H_
