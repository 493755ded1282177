// Stream: the messages between this rank and one neighbour on one channel, over a ring in each direction.
//
// A large payload that lies in a buffer of the library is not copied into the ring: the message says where it is, and
// the receiver fetches it. It has been sent when the receiver has read past the message.

#ifndef TUTTI_SRC_TRANSPORT_SHM_STREAM_H_
#define TUTTI_SRC_TRANSPORT_SHM_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/transport/message_header.h"
#include "src/transport/shm/buffer_exchange.h"
#include "src/transport/shm/ring.h"
#include "src/transport/transport.h"

namespace tutti {

class Stream {
 public:
  // `index`: the peer's among the neighbours.
  Stream(int peer, int index, Channel channel, const RingMemory& out, const RingMemory& in, BufferExchange& exchange)
      : peer_(peer), index_(index), channel_(channel), exchange_(exchange), writer_(out), reader_(in) {}

  void Push(const MessageTag& tag, const void* data, uint64_t bytes, uint64_t cookie);
  void Expect(int64_t count) { expected_ += count; }
  bool queued() const { return first_ < queue_.size(); }
  // Has messages whose payload the peer has not fetched.
  bool lent() const { return !lent_.empty(); }
  bool in_use() const { return expected_ > 0 || queued() || lent(); }

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
    SharedPlace place;  // id 0: the payload goes through the ring
    uint64_t end;       // of the message in the ring, once it is written and its payload has to be fetched
  };
  enum class State : uint8_t { kHeader, kOffered, kPayload, kRefused };

  bool Write(MessageSink& sink);
  bool ReportFetched(MessageSink& sink);
  bool ReadHeader();
  bool ReadPayload(MessageSink& sink);

  int peer_;
  int index_;
  Channel channel_;
  BufferExchange& exchange_;

  RingWriter writer_;
  std::vector<Message> queue_;
  size_t first_ = 0;             // of the queue that has not been written as a whole
  bool header_written_ = false;  // of the first message
  uint64_t written_ = 0;         // bytes of its payload
  std::vector<Message> lent_;    // to be fetched, the oldest first

  RingReader reader_;
  int64_t expected_ = 0;
  State state_ = State::kHeader;
  DecodedHeader message_;
  SharedPlace place_ = {};
  std::byte* destination_ = nullptr;
  uint64_t read_ = 0;  // bytes of the payload
  bool broken_ = false;
};

}  // namespace tutti

#endif  // TUTTI_SRC_TRANSPORT_SHM_STREAM_H_
