// MembershipServer: rank 0's side of the membership: the I/O around Roster and Tribunal.
//
// Lives on its loop's thread.

#ifndef TUTTI_SRC_RENDEZVOUS_MEMBERSHIP_SERVER_H_
#define TUTTI_SRC_RENDEZVOUS_MEMBERSHIP_SERVER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/base/event_loop.h"
#include "src/base/fd.h"
#include "src/base/frame_connection.h"
#include "src/rendezvous/membership.h"
#include "src/rendezvous/membership_messages.h"
#include "src/rendezvous/roster.h"
#include "src/rendezvous/tribunal.h"

namespace tutti {

class MembershipServer {
 public:
  // `listener` listens.
  MembershipServer(EventLoop& loop, Fd listener, const MembershipOptions& options);
  ~MembershipServer();  // closes what is still open
  MembershipServer(const MembershipServer&) = delete;
  MembershipServer& operator=(const MembershipServer&) = delete;

  // Tells everybody, unless there is a verdict already.
  void Decide(absl::Status verdict);

  // Takes no more callers, waits until the ranks have left, `patience` at most, then says goodbye to those that are
  // still there. `done` is called once, maybe inline; the server may be destroyed then, though not in `done` itself.
  void Close(absl::Duration patience, absl::AnyInvocable<void()> done);

 private:
  using CallerId = uint64_t;
  struct Caller {
    std::unique_ptr<FrameConnection> connection;
    std::string address;
    absl::Time since;
    int rank = -1;         // -1: has not said who it is
    bool closing = false;  // refused, or has left: its end is no news
  };

  void Accept();
  void DropOldestStranger();
  void OnFrame(CallerId id, const std::string& payload);
  void OnHello(Caller& caller, CallerId id, const std::string& payload);
  void OnMessage(Caller& caller, const MembershipMessage& message);
  void OnJoiningMessage(Caller& caller, const MembershipMessage& message);
  void OnClosed(CallerId id, const absl::Status& why);
  void LoseRank(int rank, absl::string_view why);
  void Refuse(Caller& caller, std::string why, bool temporary);
  void Welcome();
  void Tick();
  void DropSlowStrangers(absl::Time now);

  // Carries out what the tribunal has come to, and sets the timer anew.
  void Act();
  void Broadcast(const MembershipMessage& message);
  void FinishIfEmpty();
  void SayGoodbye();

  EventLoop& loop_;
  const MembershipOptions options_;
  Fd listener_;
  Roster roster_;
  std::map<CallerId, Caller> callers_;
  CallerId last_id_ = 0;
  std::optional<Tribunal> tribunal_;  // once all have joined
  uint32_t asked_ = 0;
  absl::Status verdict_;
  std::optional<EventLoop::TimerId> timer_, resume_timer_, patience_timer_;
  absl::Time timer_time_;
  absl::AnyInvocable<void()> done_;  // set: closing
  bool done_called_ = false;
};

}  // namespace tutti

#endif  // TUTTI_SRC_RENDEZVOUS_MEMBERSHIP_SERVER_H_
