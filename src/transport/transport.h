// The transport seam: messages between the ranks of one group.
//
// An Endpoint is one rank's access to its peers. It moves whole messages, tagged by the engine, and knows nothing of
// collectives. Nothing here blocks but Sleep.
//
// Threads: whoever holds the engine's progress token calls everything; only Wake may be called from anywhere.

#ifndef TUTTI_SRC_TRANSPORT_TRANSPORT_H_
#define TUTTI_SRC_TRANSPORT_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/reduce/reduce.h"

namespace tutti {

// Messages of one channel never wait behind those of the other.
enum class Channel : uint8_t { kCollective, kPointToPoint };
inline constexpr int kChannelCount = 2;

// Says which message this is. Carried in front of every payload.
struct MessageTag {
  uint64_t fingerprint = 0;  // of the operation's arguments
  uint32_t sequence = 0;     // of the operation, on its channel (and for kPointToPoint, between its two ranks)
  uint32_t segment = 0;      // of the operation
  // kCollective: of the message, among those from this sender to this receiver in the segment. kPointToPoint: what the
  // user calls the tag.
  uint32_t ordinal = 0;
  uint64_t block_bytes = 0;  // of uneven blocks: of the whole block of which this is a part
  friend bool operator==(const MessageTag&, const MessageTag&) = default;
};

// What the endpoint needs from the engine. Called from within Poll only.
class MessageSink {
 public:
  enum class Verdict : uint8_t {
    kTake,    // destination holds `bytes` bytes and stays valid until Received
    kLater,   // not yet: keep the message, and ask again at the next Poll
    kRefuse,  // it can never be taken; the engine has failed the group, and will destroy the endpoint
  };
  struct Delivery {
    Verdict verdict = Verdict::kLater;
    void* destination = nullptr;
  };
  // The next message from `peer` has this tag and payload size. Where does it go?
  virtual Delivery Arrived(int peer, Channel channel, const MessageTag& tag, uint64_t bytes) = 0;
  // The payload of a message that was taken is in place.
  virtual void Received(int peer, Channel channel, const MessageTag& tag) = 0;
  // The memory of a message passed to Send may be reused.
  virtual void Sent(uint64_t cookie) = 0;
  // The peer cannot be reached any more. Called once per peer, and not for a peer that closed in order while nothing
  // was expected from it or queued for it.
  virtual void PeerLost(int peer, absl::Status why) = 0;
  // The reduction that was begun has ended: its output is complete, and its memory may be reused.
  virtual void Reduced() = 0;
  // Instead of the reduction that was begun, the peer has come to something else, or it has `before`, as its history
  // shows. There is none under way any more.
  virtual void Disagrees(int peer, bool before) = 0;

 protected:
  ~MessageSink() = default;
};

// From which size on messages of kCollective to one peer are spread over how many sockets.
struct Striping {
  int sockets = 1;
  uint64_t from_bytes = 0;
};

// An all-reduce in one piece.
struct SharedReduction {
  uint64_t fingerprint = 0;
  uint64_t history = 0;  // equal on all ranks if what they have called so far is
  uint32_t sequence = 0;
  const void* input = nullptr;  // may be the output
  void* output = nullptr;
  uint64_t count = 0;  // elements
  size_t element_bytes = 1;
  ReduceFunction reduce = nullptr;  // not needed for 0 elements
  double divisor = 1.0;
};

// What an endpoint can do if all ranks of the group share memory.
class SharedMemory {
 public:
  // Begins; Poll carries it out, and tells the sink of its end. One at a time. All ranks begin the same ones in the
  // same order.
  virtual void BeginReduction(const SharedReduction& reduction) = 0;
  // This rank has come to a collective with this sequence number that is carried out by messages.
  virtual void BeginOther(uint32_t sequence) = 0;

 protected:
  ~SharedMemory() = default;
};

class Endpoint {
 public:
  virtual ~Endpoint() = default;  // closes everything at once; nothing touches payload memory afterwards

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Queues a message of any size, 0 included. `data` stays valid until Sent(cookie). Messages to one peer on one
  // channel are delivered in the order of the calls, but for those of kCollective that are striped over several sockets
  // (striping()): these keep their order on each socket. Connects on first use; a failure to connect shows as PeerLost.
  virtual void Send(int peer, Channel channel, const MessageTag& tag, const void* data, uint64_t bytes,
                    uint64_t cookie) = 0;

  // `count` more messages will be wanted from the peer (or fewer, if negative, of those that have not arrived): connect
  // to it, and look for them at each Poll. A peer from which nothing is expected is not read from.
  virtual void Expect(int peer, Channel channel, int64_t count) = 0;

  // Moves what can be moved without waiting, and reports it to the sink. True if anything moved.
  virtual bool Poll(MessageSink& sink) = 0;

  // Blocks until Poll may have something to do, Wake was called since the last Sleep, or the deadline has passed.
  virtual void Sleep(absl::Time deadline) = 0;

  // Ends the current or the next Sleep. Any thread.
  virtual void Wake() = 0;

  virtual Striping striping() const = 0;

  // Null unless all ranks of the group share memory.
  virtual SharedMemory* shared_memory() = 0;

  // "name = value (reason)" lines.
  virtual std::string Describe() const = 0;
};

}  // namespace tutti

#endif  // TUTTI_SRC_TRANSPORT_TRANSPORT_H_
