// Mailbox: which receive gets which point-to-point message.
//
// A receive is *posted* until the first segment of a message that it may take is offered; from then on it is *bound* to
// that message, by its sender and the sender's number for it. Messages of one sender arrive in the order in which they
// were sent. A message that no receive may take stays where it is, in the connection, as long as nobody waits for what
// is behind it; then it is taken *early*, into memory of ours, up to kEarlyBytesMax in all.
//
// Belongs to the core.

#ifndef TUTTI_SRC_ENGINE_MAILBOX_H_
#define TUTTI_SRC_ENGINE_MAILBOX_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "src/engine/operation.h"
#include "src/transport/transport.h"

namespace tutti {

class Mailbox {
 public:
  static constexpr uint64_t kEarlyBytesMax = uint64_t{256} << 20;

  // A segment that came before its receive.
  struct Early {
    int peer = 0;
    MessageTag tag;
    uint64_t bytes = 0;
    bool complete = false;
    std::unique_ptr<std::byte[]> payload;
  };

  void Post(EngineOperation* receive) { posted_.push_back(receive); }
  // The first posted receive that may take a message with this label from the peer, which is posted no more; or null.
  EngineOperation* TakePosted(int peer, uint32_t label);
  // Whether a posted receive waits for something from the peer.
  bool IsAwaited(int peer) const;
  // One that is posted, for messages.
  const EngineOperation& AnyPosted() const { return *posted_.front(); }

  // `receive` is to get the message of this sender and number.
  void Bind(EngineOperation* receive, int peer, uint32_t sequence);
  EngineOperation* FindBound(int peer, uint32_t sequence) const;
  void Unbind(const EngineOperation* receive);

  // Null if it would be too much.
  Early* TakeEarly(int peer, const MessageTag& tag, uint64_t bytes);
  Early* FindEarly(int peer, uint32_t sequence, uint32_t segment);
  bool HasEarly(int peer, uint32_t sequence) const;
  // The first segment of the oldest early message that such a receive may take, or null.
  const Early* OldestEarly(int peer, uint32_t label) const;
  void Drop(const Early* early);
  uint64_t early_bytes() const { return early_bytes_; }

  void Clear();

 private:
  std::vector<EngineOperation*> posted_;  // in the order of their calls
  std::vector<EngineOperation*> bound_;
  std::list<Early> early_;  // in the order of their arrival
  uint64_t early_bytes_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_SRC_ENGINE_MAILBOX_H_
