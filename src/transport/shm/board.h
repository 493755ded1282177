// Board: what a rank shows to its neighbours, at the beginning of its segment.
//
// Every field is written by its owner alone, but for those that say otherwise. Memory that is zero is a fresh board;
// epochs and rounds only grow.

#ifndef TUTTI_SRC_TRANSPORT_SHM_BOARD_H_
#define TUTTI_SRC_TRANSPORT_SHM_BOARD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tutti {

inline constexpr size_t kLine = 64;  // bytes that move between caches at once
// Of an operand that fits into the post's own line.
inline constexpr size_t kPostBytes = 32;

// Memory from BufferRegistry, as neighbours know it. id 0: other memory.
struct SharedPlace {
  uint64_t id;
  uint64_t offset;
};

// A rank has come to a reduction.
struct alignas(kLine) Post {
  std::atomic<uint64_t> epoch;  // of the reduction; written last, and read first
  uint64_t fingerprint;
  uint64_t history;
  uint32_t sequence;
  union {
    struct {
      SharedPlace input, output;
    } place;
    std::byte payload[kPostBytes];
  };
};
static_assert(sizeof(Post) == kLine);

// How far the slice of this rank is, in a reduction where the operands lie.
struct alignas(kLine) SliceState {
  std::atomic<uint64_t> claimed;              // pieces; by whoever takes them
  alignas(kLine) std::atomic<uint64_t> done;  // pieces; by whoever has written them
};

struct Board {
  alignas(kLine) std::atomic<uint32_t> asleep;       // cleared by who wakes it
  alignas(kLine) std::atomic<uint32_t> closed;       // the rank's memory is to be left alone
  alignas(kLine) std::atomic<uint32_t> busy;         // the rank is writing to others' memory
  alignas(kLine) std::atomic<uint32_t> by_messages;  // sequence number of the latest collective by messages
  alignas(kLine) std::atomic<uint64_t> staged;       // rounds for which this rank's inputs are in its area
  alignas(kLine) std::atomic<uint64_t> reduced;      // rounds for which this rank's result is in its area
  Post posts[2];                                     // by the epoch's parity
  SliceState slices[2];
};

// Between a store and a load that must not change places. ThreadSanitizer knows no fences; there, an operation that is
// one as well.
inline void FullFence() {
#ifdef __SANITIZE_THREAD__
  std::atomic<uint32_t> nothing;
  nothing.fetch_add(0, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

}  // namespace tutti

#endif  // TUTTI_SRC_TRANSPORT_SHM_BOARD_H_
