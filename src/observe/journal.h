// Journal: the last operations of one rank, so that a failure can say what each rank was doing.
//
// Thread-safe. Recording allocates nothing.

#ifndef TUTTI_SRC_OBSERVE_JOURNAL_H_
#define TUTTI_SRC_OBSERVE_JOURNAL_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "src/schedule/schedule.h"
#include "tutti/data_type.h"

namespace tutti {

// What an operation is asked to do: all that ranks must agree on.
struct OperationDescriptor {
  Collective collective = Collective::kBarrier;
  ReduceOp op = ReduceOp::kSum;  // reductions only
  DataType type = DataType::kUInt8;
  Algorithm algorithm = Algorithm::kTree;
  uint64_t count = 0;   // elements, of the operand or of each block; if uneven, of all blocks, or 0 if not all know
  bool uneven = false;  // blocks of different sizes
  uint64_t counts_hash = 0;  // of their sizes, where all ranks know them
  int root = 0;              // of a rooted collective; send, recv: the peer
  double divisor = 1;        // reductions only
  uint64_t segment_bytes = 0;
};

// Equal for equal descriptors, on every rank and build; the two sides of a send and receive are equal.
uint64_t Fingerprint(const OperationDescriptor& descriptor);

// Never 0.
uint64_t HashCounts(absl::Span<const size_t> counts);

// "all-reduce of 409600 float32, sum"
std::string ToString(const OperationDescriptor& descriptor);

class Journal {
 public:
  static constexpr size_t kEntries = 64;

  struct Entry {
    uint32_t sequence = 0;  // from 1 on, of collectives
    OperationDescriptor descriptor;
    uint64_t history = 0;  // hash over the fingerprints of all operations up to this one
    bool done = false;
  };

  // With the descriptor's fingerprint. Its history, which is that of the other ranks if all operations were.
  uint64_t Begin(uint32_t sequence, const OperationDescriptor& descriptor, uint64_t fingerprint);
  // Operations end in the order in which they began.
  void End(uint32_t sequence) { ended_.store(sequence, std::memory_order_release); }

  std::optional<Entry> Find(uint32_t sequence) const;
  std::optional<Entry> Latest() const;
  // Newest last, at most `count`.
  std::vector<Entry> Recent(size_t count) const;

 private:
  Entry EntryAt(uint32_t sequence) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<uint32_t> ended_{0};  // the latest
  mutable absl::Mutex mutex_;
  std::array<Entry, kEntries> ring_ ABSL_GUARDED_BY(mutex_);
  uint32_t latest_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tutti

#endif  // TUTTI_SRC_OBSERVE_JOURNAL_H_
