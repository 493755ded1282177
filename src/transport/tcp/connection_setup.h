// ConnectionSetup: opens connections to other ranks, accepts theirs, and turns strangers away.
//
// A new socket is watched under an id of its own until its hellos are exchanged; then it is handed to the owner, who
// gives it another.

#ifndef TUTTI_SRC_TRANSPORT_TCP_CONNECTION_SETUP_H_
#define TUTTI_SRC_TRANSPORT_TCP_CONNECTION_SETUP_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/base/fd.h"
#include "src/base/socket.h"
#include "src/identity/hello.h"
#include "src/transport/tcp/congestion.h"
#include "src/transport/tcp/event_set.h"
#include "src/transport/tcp/handshake.h"
#include "src/transport/tcp/tcp_transport.h"
#include "src/transport/transport.h"

namespace tutti {

class ConnectionSetup {
 public:
  // What the owner is told, from within Advance.
  class Owner {
   public:
    // Whether a connection from the peer is wanted; the error is told to the peer.
    virtual absl::Status Admit(int peer, Channel channel) = 0;
    virtual void Connected(int peer, Channel channel, Fd socket) = 0;
    virtual void ConnectFailed(int peer, absl::Status why) = 0;

   protected:
    ~Owner() = default;
  };

  // Uses ids from `first_id` on. All references outlive the object.
  ConnectionSetup(const TcpOptions& options, const std::vector<SocketAddress>& addresses, const Congestion& congestion,
                  EventSet& events, uint64_t first_id)
      : options_(options),
        addresses_(addresses),
        congestion_(congestion),
        events_(events),
        listener_id_(first_id),
        next_id_(first_id + 1) {}
  absl::Status Start();

  // Connects to the peer: from the next Advance on.
  void Call(int peer, Channel channel);
  // Stops connecting to the peer.
  void Forget(int peer);

  // There was an edge for one of our ids.
  void Edge(uint64_t id);
  // Whether Advance has something to do, leaving time aside, and when time will give it something.
  bool HasWork() const;
  absl::Time NextTimer() const;
  // True if anything happened.
  bool Advance(Owner& owner);

 private:
  struct Target {
    int peer;
    Channel channel;
  };
  struct Pending {
    Handshake handshake;
    absl::Time deadline;
    Target target;      // of a call; peer is -1 for those that call us
    bool ready = true;  // there may be something to do
  };
  using PendingById = std::map<uint64_t, Pending>;  // the oldest first

  Hello HelloFor(Channel channel) const;
  void AcceptAll();
  absl::Status Add(Handshake handshake, absl::Time deadline, Target target);
  absl::Status Connect(const Target& target, absl::Time deadline);
  // True if it is finished, one way or another.
  bool AdvanceOne(Pending& pending, Owner& owner);
  absl::StatusOr<Target> CheckCaller(const Hello& hello, Owner& owner) const;
  absl::Status CheckCalled(const Hello& hello, const Target& target) const;
  void AnswerCaller(Pending& pending, Owner& owner);
  void Fail(const Pending& pending, const absl::Status& why, Owner& owner);
  void FailCall(int peer, const absl::Status& why, Owner& owner);

  const TcpOptions& options_;
  const std::vector<SocketAddress>& addresses_;
  const Congestion& congestion_;
  EventSet& events_;
  const uint64_t listener_id_;
  SocketAddress source_;  // of our calls; AF_UNSPEC if the listener is not bound to one address

  uint64_t next_id_;
  std::vector<std::pair<Target, absl::Time>> to_call_;  // with the deadline
  PendingById pending_;
  bool listener_ready_ = false;
  absl::Time accept_again_ = absl::InfinitePast();  // after a lack of descriptors
};

}  // namespace tutti

#endif  // TUTTI_SRC_TRANSPORT_TCP_CONNECTION_SETUP_H_
