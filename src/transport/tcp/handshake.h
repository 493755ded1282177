// Handshake: the exchange of hellos on a new socket, without blocking.
//
// The caller connects, sends its hello and reads the answer; the called reads the hello and sends an answer. Not a byte
// behind the peer's hello is read, so that the socket can be handed on.

#ifndef TUTTI_SRC_TRANSPORT_TCP_HANDSHAKE_H_
#define TUTTI_SRC_TRANSPORT_TCP_HANDSHAKE_H_

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "src/base/fd.h"
#include "src/base/socket.h"
#include "src/identity/hello.h"

namespace tutti {

class Handshake {
 public:
  enum class State {
    kConnecting,  // caller: to kWriting
    kReading,     // caller: to kDone; called: to kHeard
    kHeard,       // called: until Answer, to kWriting
    kWriting,     // caller: to kReading; called: to kDone
    kDone,        // the peer's hello was read, and ours is on its way
  };

  // The caller. `socket` is from StartConnect.
  static Handshake Call(Fd socket, const SocketAddress& to, const Hello& hello);
  // The called. `from` is for messages.
  static Handshake Receive(Fd socket, const SocketAddress& from);

  // Goes on as far as possible without waiting. An error ends it, and names the address.
  absl::Status Advance();
  // The error of one that did not end within the limit: what it was waiting for.
  absl::Status TimedOut(absl::Duration limit) const;
  // In state kHeard.
  void Answer(const Hello& hello);

  State state() const { return state_; }
  const Hello& peer_hello() const { return peer_hello_; }  // from kHeard or kDone on
  const SocketAddress& address() const { return address_; }
  int fd() const { return socket_.get(); }
  Fd TakeSocket() { return std::move(socket_); }

 private:
  Handshake(Fd socket, const SocketAddress& address, State state, bool is_caller)
      : socket_(std::move(socket)), address_(address), state_(state), is_caller_(is_caller) {}

  // One transition, or as far as it gets; true if the state has changed.
  absl::StatusOr<bool> Step();
  absl::StatusOr<bool> Connect();
  absl::StatusOr<bool> Read();
  absl::StatusOr<bool> Write();
  absl::StatusOr<size_t> BytesWanted() const;
  absl::Status AtAddress(const absl::Status& status) const;

  Fd socket_;
  SocketAddress address_;
  State state_;
  bool is_caller_;
  std::string out_;
  std::string in_;
  Hello peer_hello_;
};

}  // namespace tutti

#endif  // TUTTI_SRC_TRANSPORT_TCP_HANDSHAKE_H_
