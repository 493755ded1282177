// BufferRegistry: the memory that a process has for tensors which its neighbours may reduce in place.

#ifndef TUTTI_SRC_TRANSPORT_SHM_BUFFER_REGISTRY_H_
#define TUTTI_SRC_TRANSPORT_SHM_BUFFER_REGISTRY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "src/transport/shm/board.h"
#include "src/transport/shm/segment.h"

namespace tutti {

// Thread-safe. Lives until the last buffer is gone.
class BufferRegistry : public std::enable_shared_from_this<BufferRegistry> {
 public:
  static std::shared_ptr<BufferRegistry> Create() { return std::shared_ptr<BufferRegistry>(new BufferRegistry); }

  absl::StatusOr<std::shared_ptr<void>> Allocate(size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  // Where the bytes lie, if all of them lie in one buffer.
  std::optional<SharedPlace> Find(const void* data, size_t bytes) const ABSL_LOCKS_EXCLUDED(mutex_);

  // To hand a buffer to a neighbour, while it lives.
  struct Handle {
    int descriptor = -1;
    size_t bytes = 0;
  };
  std::optional<Handle> HandleOf(uint64_t id) const ABSL_LOCKS_EXCLUDED(mutex_);

  // The buffers that have ended, in order, from the first-th on.
  std::vector<uint64_t> EndedSince(size_t first) const ABSL_LOCKS_EXCLUDED(mutex_);
  size_t ended() const { return ended_count_.load(std::memory_order_acquire); }

  // Cuts a buffer off from all neighbours, for good: see Segment::MakePrivate.
  absl::Status Isolate(uint64_t id) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    uint64_t id = 0;
    Segment segment;
  };

  BufferRegistry() = default;
  void Release(const std::byte* data) ABSL_LOCKS_EXCLUDED(mutex_);
  const Entry* FindEntry(const std::byte* data) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::map<const std::byte*, Entry> entries_ ABSL_GUARDED_BY(mutex_);  // by address
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<uint64_t> ended_ ABSL_GUARDED_BY(mutex_);
  std::atomic<size_t> ended_count_{0};
};

}  // namespace tutti

#endif  // TUTTI_SRC_TRANSPORT_SHM_BUFFER_REGISTRY_H_
