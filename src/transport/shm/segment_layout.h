// SegmentLayout: what lies where in a rank's segment, which depends on the number of neighbours only.
//
//   Board
//   for each neighbour and channel: how far this rank has read what that one sent
//   for each neighbour and channel: how far this rank has written, and the ring that it writes to
//   the area, in which each reduction or round of one takes the bytes behind those of the last (AreaCursor)
//
// Memory that is zero is a fresh segment.

#ifndef TUTTI_SRC_TRANSPORT_SHM_SEGMENT_LAYOUT_H_
#define TUTTI_SRC_TRANSPORT_SHM_SEGMENT_LAYOUT_H_

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "src/transport/shm/board.h"
#include "src/transport/transport.h"

namespace tutti {

class SegmentLayout {
 public:
  explicit SegmentLayout(int count)
      : rings_(static_cast<size_t>(count) * kChannelCount),
        ring_bytes_(std::clamp(std::bit_floor(kAllRingsBytes / rings_), kRingBytesMin, kRingBytesMax)),
        // Of one round, what each rank reduces.
        part_bytes_(kRoundBytes / static_cast<size_t>(count) / kLine * kLine) {}

  // What one round of a reduction, or an operand that is posted, takes of the area at most.
  static constexpr size_t kRoundBytes = size_t{256} << 10;
  // A cache line that a neighbour has read is slow to write while that one's cache still holds it. So the area is
  // larger than the second-level caches: when it is written again, the neighbours have long dropped it.
  static constexpr size_t kAreaBytes = size_t{2} << 20;

  size_t bytes() const { return AreaAt() + kAreaBytes; }
  size_t ring_bytes() const { return ring_bytes_; }
  size_t part_bytes() const { return part_bytes_; }

  Board& board(std::byte* segment) const { return *std::launder(reinterpret_cast<Board*>(segment)); }
  std::atomic<uint64_t>& read_to(std::byte* segment, int neighbour, Channel channel) const {
    return Position(segment + ReadPositionsAt() + Index(neighbour, channel) * kLine);
  }
  std::atomic<uint64_t>& written_to(std::byte* segment, int neighbour, Channel channel) const {
    return Position(segment + RingsAt() + Index(neighbour, channel) * (kLine + ring_bytes_));
  }
  std::byte* ring(std::byte* segment, int neighbour, Channel channel) const {
    return segment + RingsAt() + Index(neighbour, channel) * (kLine + ring_bytes_) + kLine;
  }
  std::byte* area(std::byte* segment) const { return segment + AreaAt(); }

 private:
  static constexpr size_t kAllRingsBytes = size_t{8} << 20;
  static constexpr size_t kRingBytesMin = size_t{4} << 10;
  static constexpr size_t kRingBytesMax = kAreaBytes;

  static size_t Index(int neighbour, Channel channel) {
    return static_cast<size_t>(neighbour) * kChannelCount + static_cast<size_t>(channel);
  }
  static std::atomic<uint64_t>& Position(std::byte* at) {
    return *std::launder(reinterpret_cast<std::atomic<uint64_t>*>(at));
  }
  size_t ReadPositionsAt() const { return sizeof(Board); }
  size_t RingsAt() const { return ReadPositionsAt() + rings_ * kLine; }
  size_t AreaAt() const { return RingsAt() + rings_ * (kLine + ring_bytes_); }

  size_t rings_;
  size_t ring_bytes_;
  size_t part_bytes_;
};

// Where in the area the bytes of each reduction, or round, lie: the same on all ranks, because they make the same ones.
//
// Bytes are taken again only after at least four later takings.
class AreaCursor {
 public:
  size_t Take(size_t bytes) {
    const size_t lines = (bytes + kLine - 1) / kLine * kLine;
    if (next_ + lines > SegmentLayout::kAreaBytes) next_ = 0;
    return std::exchange(next_, next_ + lines);
  }

 private:
  static_assert(SegmentLayout::kAreaBytes >= 6 * SegmentLayout::kRoundBytes);
  size_t next_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_SRC_TRANSPORT_SHM_SEGMENT_LAYOUT_H_
