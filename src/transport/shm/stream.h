// Stream: the messages between this rank and one neighbour on one channel, over a ring in each direction.

#ifndef TUTTI_SRC_TRANSPORT_SHM_STREAM_H_
#define TUTTI_SRC_TRANSPORT_SHM_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "src/transport/message_header.h"
#include "src/transport/shm/ring.h"
#include "src/transport/transport.h"

namespace tutti {

class Stream {
 public:
  Stream(int peer, Channel channel, const RingMemory& out, const RingMemory& in)
      : peer_(peer), channel_(channel), writer_(out), reader_(in) {}

  void Push(const MessageTag& tag, const void* data, uint64_t bytes, uint64_t cookie);
  void Expect(int64_t count) { expected_ += count; }
  bool queued() const { return !queue_.empty(); }
  bool in_use() const { return expected_ > 0 || !queue_.empty(); }

  // Moves what can be moved; true if anything was. Then the peer may have something to do.
  bool Send(MessageSink& sink);
  bool Receive(MessageSink& sink);
  // Whether they would move anything.
  bool CanMove();
  // What the peer wrote is no stream of messages.
  bool broken() const { return broken_; }
  int peer() const { return peer_; }

 private:
  struct Message {
    MessageHeader header;
    const std::byte* data;
    uint64_t bytes;
    uint64_t cookie;
  };
  enum class State : uint8_t { kHeader, kOffered, kPayload, kRefused };

  bool Write(MessageSink& sink);
  bool ReadHeader();
  bool ReadPayload(MessageSink& sink);

  int peer_;
  Channel channel_;

  RingWriter writer_;
  std::deque<Message> queue_;
  bool header_written_ = false;  // of the first message
  uint64_t written_ = 0;         // bytes of its payload

  RingReader reader_;
  int64_t expected_ = 0;
  State state_ = State::kHeader;
  DecodedHeader message_;
  std::byte* destination_ = nullptr;
  uint64_t read_ = 0;  // bytes of the payload
  bool broken_ = false;
};

}  // namespace tutti

#endif  // TUTTI_SRC_TRANSPORT_SHM_STREAM_H_
