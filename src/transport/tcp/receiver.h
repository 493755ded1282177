// Receiver: cuts the bytes of one socket into messages and asks the sink where each goes.
//
// A read goes to the rest of the current payload first and to a small staging buffer behind it: a small message costs
// one call, a large one goes straight to its destination.

#ifndef TUTTI_SRC_TRANSPORT_TCP_RECEIVER_H_
#define TUTTI_SRC_TRANSPORT_TCP_RECEIVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/transport/message_header.h"
#include "src/transport/transport.h"

namespace tutti {

class Receiver {
 public:
  // Whether Receive would get further, given that messages are expected and that the socket is readable or not. A
  // message that the sink keeps for later does not count.
  bool CanContinue(bool readable) const;

  // Receives what is there while `expected` is not 0, which counts the messages still wanted, those in progress
  // included, and goes down with each. `readable` is cleared when the socket has been read empty. True if anything
  // moved. An error ends the connection: its end (kUnavailable), or bytes that are no message (kInvalidArgument).
  absl::StatusOr<bool> Receive(int fd, int peer, Channel channel, int64_t& expected, bool& readable, MessageSink& sink);

 private:
  enum class State : uint8_t {
    kHeader,   // next is a header
    kOffered,  // the sink was asked, and keeps the message
    kPayload,  // destination known
    kRefused,  // for ever
  };

  size_t staged() const { return staged_end_ - staged_begin_; }
  absl::Status ParseHeader();
  bool Offer(int peer, Channel channel, MessageSink& sink);
  absl::StatusOr<bool> Read(int fd, bool& readable);

  State state_ = State::kHeader;

  DecodedHeader message_;
  uint8_t* destination_ = nullptr;
  uint64_t done_ = 0;  // of message_.bytes

  std::unique_ptr<uint8_t[]> staging_;  // from the first read on
  size_t staged_begin_ = 0;
  size_t staged_end_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_SRC_TRANSPORT_TCP_RECEIVER_H_
