// SendQueue: the messages that wait to be written to one socket.

#ifndef TUTTI_SRC_TRANSPORT_TCP_SEND_QUEUE_H_
#define TUTTI_SRC_TRANSPORT_TCP_SEND_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "src/transport/message_header.h"
#include "src/transport/transport.h"

namespace tutti {

class SendQueue {
 public:
  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }

  void Push(const MessageTag& tag, const void* data, uint64_t bytes, uint64_t cookie);

  // Moves the first message, of which nothing has been written, to the end of another queue.
  void MoveFirstTo(SendQueue& other);

  // Writes with one call, headers and payloads of several messages together, and reports those that were written as a
  // whole. `writable` is cleared when the socket is full. True if anything was written; else, or after an error, the
  // queue is as before.
  absl::StatusOr<bool> Flush(int fd, bool& writable, MessageSink& sink);

  void Clear() { count_ = 0; }

 private:
  struct Item {
    MessageHeader header;
    const uint8_t* data;
    uint64_t bytes;
    uint64_t cookie;
  };

  Item& at(size_t i) { return ring_[(first_ + i) & (ring_.size() - 1)]; }
  void Append(const Item& item);
  void PopFirst();
  void Grow();
  void Consume(size_t written, MessageSink& sink);

  std::vector<Item> ring_;  // its size is a power of two, or 0
  size_t first_ = 0;
  size_t count_ = 0;
  uint64_t offset_ = 0;  // bytes of the first message, header included, already written
};

}  // namespace tutti

#endif  // TUTTI_SRC_TRANSPORT_TCP_SEND_QUEUE_H_
