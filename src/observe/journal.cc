#include "src/observe/journal.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

// The finaliser of SplitMix64: every bit of the input reaches every bit of the result.
uint64_t Scramble(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Different fields in the same place give different hashes, and so does another order.
uint64_t Mix(uint64_t hash, uint64_t field) { return Scramble(hash * 0x9e3779b97f4a7c15 + field + 1); }

bool IsPair(Collective collective) { return collective == Collective::kSend || collective == Collective::kRecv; }

}  // namespace

uint64_t HashCounts(absl::Span<const size_t> counts) {
  uint64_t hash = 0;
  for (const size_t count : counts) hash = Mix(hash, count);
  return std::max<uint64_t>(hash, 1);
}

uint64_t Fingerprint(const OperationDescriptor& descriptor) {
  const bool pair = IsPair(descriptor.collective);
  const bool reduces = Reduces(descriptor.collective);
  const auto collective = static_cast<uint64_t>(pair ? Collective::kSend : descriptor.collective);
  const uint64_t root = pair ? 0 : static_cast<uint32_t>(descriptor.root);
  const uint64_t op = reduces ? static_cast<uint64_t>(descriptor.op) : 0;
  // Codes of a byte each.
  uint64_t hash = Mix(0, collective | op << 8 | static_cast<uint64_t>(descriptor.type) << 16 |
                             static_cast<uint64_t>(descriptor.algorithm) << 24 | root << 32);
  hash = Mix(hash, descriptor.count);
  hash = Mix(hash, descriptor.segment_bytes);
  if (descriptor.uneven) hash = Mix(hash, ~descriptor.counts_hash);
  if (reduces) hash = Mix(hash, std::bit_cast<uint64_t>(descriptor.divisor));
  return hash;
}

std::string ToString(const OperationDescriptor& descriptor) {
  std::string text(Name(descriptor.collective));
  if (descriptor.collective == Collective::kBarrier) return text;
  if (descriptor.uneven) {
    absl::StrAppend(&text, " of uneven blocks of ", Name(descriptor.type));
    if (descriptor.counts_hash != 0) absl::StrAppend(&text, ", ", descriptor.count, " in all");
  } else {
    absl::StrAppend(&text, " of ", descriptor.count, " ", Name(descriptor.type));
  }
  if (Reduces(descriptor.collective)) {
    absl::StrAppend(&text, ", ", Name(descriptor.op));
    if (descriptor.divisor != 1) absl::StrAppend(&text, " divided by ", descriptor.divisor);
  }
  switch (descriptor.collective) {
    case Collective::kBroadcast:
    case Collective::kScatter:
    case Collective::kRecv:
      if (descriptor.root < 0) return absl::StrCat(text, " from any rank");
      absl::StrAppend(&text, " from rank ", descriptor.root);
      break;
    case Collective::kReduce:
    case Collective::kGather:
    case Collective::kSend:
      absl::StrAppend(&text, " to rank ", descriptor.root);
      break;
    default:
      break;
  }
  return text;
}

uint64_t Journal::Begin(uint32_t sequence, const OperationDescriptor& descriptor, uint64_t fingerprint) {
  absl::MutexLock lock(&mutex_);
  const uint64_t history = Mix(ring_[latest_ % kEntries].history, fingerprint);
  Entry& entry = ring_[sequence % kEntries];
  entry.sequence = sequence;
  entry.descriptor = descriptor;
  entry.history = history;
  latest_ = sequence;
  return history;
}

Journal::Entry Journal::EntryAt(uint32_t sequence) const {
  Entry entry = ring_[sequence % kEntries];
  entry.done = entry.sequence <= ended_.load(std::memory_order_acquire);
  return entry;
}

std::optional<Journal::Entry> Journal::Find(uint32_t sequence) const {
  absl::MutexLock lock(&mutex_);
  const Entry entry = EntryAt(sequence);
  if (sequence == 0 || entry.sequence != sequence) return std::nullopt;
  return entry;
}

std::optional<Journal::Entry> Journal::Latest() const {
  absl::MutexLock lock(&mutex_);
  if (latest_ == 0) return std::nullopt;
  return EntryAt(latest_);
}

std::vector<Journal::Entry> Journal::Recent(size_t count) const {
  absl::MutexLock lock(&mutex_);
  const uint32_t recent = static_cast<uint32_t>(std::min<size_t>({count, kEntries, latest_}));
  std::vector<Entry> entries;
  entries.reserve(recent);
  for (uint32_t age = recent; age-- > 0;) entries.push_back(EntryAt(latest_ - age));
  return entries;
}

}  // namespace tutti
