#include "src/transport/shm/buffer_registry.h"

#include <utility>

#include "src/base/status_macros.h"

namespace tutti {

absl::StatusOr<std::shared_ptr<void>> BufferRegistry::Allocate(size_t bytes) {
  TUTTI_ASSIGN_OR_RETURN(Segment segment, Segment::Create(bytes));
  std::byte* const data = segment.data();
  if (data == nullptr) return std::shared_ptr<void>();
  absl::MutexLock lock(&mutex_);
  entries_.emplace(data, Entry{.id = ++last_id_, .segment = std::move(segment)});
  return std::shared_ptr<void>(
      data, [self = shared_from_this()](void* memory) { self->Release(static_cast<const std::byte*>(memory)); });
}

void BufferRegistry::Release(const std::byte* data) {
  Segment unmapped_at_last;
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(data);
  ended_.push_back(found->second.id);
  ended_count_.store(ended_.size(), std::memory_order_release);
  unmapped_at_last = std::move(found->second.segment);
  entries_.erase(found);
}

const BufferRegistry::Entry* BufferRegistry::FindEntry(const std::byte* data) const {
  auto after = entries_.upper_bound(data);
  return after == entries_.begin() ? nullptr : &std::prev(after)->second;
}

std::optional<SharedPlace> BufferRegistry::Find(const void* data, size_t bytes) const {
  const auto* begin = static_cast<const std::byte*>(data);
  absl::MutexLock lock(&mutex_);
  const Entry* entry = FindEntry(begin);
  if (entry == nullptr) return std::nullopt;
  const auto offset = static_cast<size_t>(begin - entry->segment.data());
  if (offset > entry->segment.bytes() || bytes > entry->segment.bytes() - offset) return std::nullopt;
  return SharedPlace{.id = entry->id, .offset = offset};
}

std::optional<BufferRegistry::Handle> BufferRegistry::HandleOf(uint64_t id) const {
  absl::MutexLock lock(&mutex_);
  for (const auto& [address, entry] : entries_) {
    if (entry.id == id) return Handle{.descriptor = entry.segment.descriptor(), .bytes = entry.segment.bytes()};
  }
  return std::nullopt;
}

std::vector<uint64_t> BufferRegistry::EndedSince(size_t first) const {
  absl::MutexLock lock(&mutex_);
  return {ended_.begin() + static_cast<ptrdiff_t>(first), ended_.end()};
}

absl::Status BufferRegistry::Isolate(uint64_t id) {
  absl::MutexLock lock(&mutex_);
  for (auto& [address, entry] : entries_) {
    if (entry.id != id) continue;
    TUTTI_RETURN_IF_ERROR(entry.segment.MakePrivate());
    entry.id = 0;  // memory like any other from now on
  }
  return absl::OkStatus();
}

}  // namespace tutti
