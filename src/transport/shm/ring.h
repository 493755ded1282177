// Ring: bytes from one process to another, in a ring of shared memory.
//
// Invariants: `written` and `read` are counts of bytes since the beginning; the writer alone changes `written`, the
// reader alone `read`; read <= written <= read + capacity. Bytes between the two belong to the reader, all others to
// the writer. Each publishes with a release store what it is done with, and the other acquires it: so the reader sees
// the bytes that were written, and the writer does not overwrite what is still being read.
//
// Messages begin at multiples of a cache line, so that a header is never cut at the end of the ring.

#ifndef TUTTI_SRC_TRANSPORT_SHM_RING_H_
#define TUTTI_SRC_TRANSPORT_SHM_RING_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "src/transport/shm/board.h"

namespace tutti {

struct RingMemory {
  std::byte* data = nullptr;
  size_t capacity = 0;  // a power of two, at least a line
  std::atomic<uint64_t>* written = nullptr;
  std::atomic<uint64_t>* read = nullptr;
};

class RingWriter {
 public:
  explicit RingWriter(const RingMemory& memory) : memory_(memory) {}

  // Bytes that can be written now.
  size_t Room() {
    if (position_ - read_ == memory_.capacity) read_ = memory_.read->load(std::memory_order_acquire);
    return memory_.capacity - (position_ - read_);
  }
  // At most Room() bytes.
  void Write(const void* bytes, size_t count) {
    const size_t at = position_ & (memory_.capacity - 1);
    const size_t first = std::min(count, memory_.capacity - at);
    std::memcpy(memory_.data + at, bytes, first);
    if (count > first) std::memcpy(memory_.data, static_cast<const std::byte*>(bytes) + first, count - first);
    position_ += count;
  }
  // The next message begins on a line of its own. There is always room: capacity is a multiple of it.
  void EndMessage() { position_ = (position_ + kLine - 1) / kLine * kLine; }
  uint64_t position() const { return position_; }
  // Up to where the reader is done.
  uint64_t ReadByPeer() const { return memory_.read->load(std::memory_order_acquire); }
  void Publish() { memory_.written->store(position_, std::memory_order_release); }

 private:
  RingMemory memory_;
  uint64_t position_ = 0;
  uint64_t read_ = 0;  // as last seen
};

class RingReader {
 public:
  explicit RingReader(const RingMemory& memory) : memory_(memory) {}

  // Bytes that can be read now; more than the capacity if the writer is not one.
  size_t Available() {
    if (position_ >= written_) written_ = memory_.written->load(std::memory_order_acquire);
    return written_ > position_ ? written_ - position_ : 0;
  }
  bool IsBroken() const { return written_ > position_ + memory_.capacity; }
  // At most Available() bytes.
  void Read(void* to, size_t count) {
    const size_t at = position_ & (memory_.capacity - 1);
    const size_t first = std::min(count, memory_.capacity - at);
    std::memcpy(to, memory_.data + at, first);
    if (count > first) std::memcpy(static_cast<std::byte*>(to) + first, memory_.data, count - first);
    position_ += count;
  }
  void EndMessage() { position_ = (position_ + kLine - 1) / kLine * kLine; }
  // Whole lines, so that there is room for the writer to end a message.
  void Publish() { memory_.read->store(position_ / kLine * kLine, std::memory_order_release); }

 private:
  RingMemory memory_;
  uint64_t position_ = 0;
  uint64_t written_ = 0;  // as last seen
};

}  // namespace tutti

#endif  // TUTTI_SRC_TRANSPORT_SHM_RING_H_
