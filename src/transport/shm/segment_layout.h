// SegmentLayout: what lies where in a rank's segment, which depends on the number of neighbours only.
//
//   Board
//   for each neighbour and channel: how far this rank has read what that one sent
//   for each neighbour and channel: how far this rank has written, and the ring that it writes to
//   cells for staged reductions: two for inputs, two for results
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

#include "src/transport/shm/board.h"
#include "src/transport/transport.h"

namespace tutti {

class SegmentLayout {
 public:
  explicit SegmentLayout(int count)
      : rings_(static_cast<size_t>(count) * kChannelCount),
        ring_bytes_(std::clamp(std::bit_floor(kAllRingsBytes / rings_), kRingBytesMin, kRingBytesMax)),
        // Of one round, what each rank reduces.
        part_bytes_(kCellBytes / static_cast<size_t>(count) / kLine * kLine) {}

  size_t bytes() const { return CellsAt() + 2 * kCellBytes + 2 * part_bytes_; }
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
  // The inputs of a round for one of the ranks.
  std::byte* input_cell(std::byte* segment, uint64_t round, int neighbour) const {
    return segment + CellsAt() + round % 2 * kCellBytes + static_cast<size_t>(neighbour) * part_bytes_;
  }
  std::byte* result_cell(std::byte* segment, uint64_t round) const {
    return segment + CellsAt() + 2 * kCellBytes + round % 2 * part_bytes_;
  }

 private:
  static constexpr size_t kAllRingsBytes = size_t{2} << 20;
  static constexpr size_t kRingBytesMin = size_t{4} << 10;
  static constexpr size_t kRingBytesMax = size_t{512} << 10;
  // A private operand and its cells stay in the second-level cache together.
  static constexpr size_t kCellBytes = size_t{256} << 10;

  static size_t Index(int neighbour, Channel channel) {
    return static_cast<size_t>(neighbour) * kChannelCount + static_cast<size_t>(channel);
  }
  static std::atomic<uint64_t>& Position(std::byte* at) {
    return *std::launder(reinterpret_cast<std::atomic<uint64_t>*>(at));
  }
  size_t ReadPositionsAt() const { return sizeof(Board); }
  size_t RingsAt() const { return ReadPositionsAt() + rings_ * kLine; }
  size_t CellsAt() const { return RingsAt() + rings_ * (kLine + ring_bytes_); }

  size_t rings_;
  size_t ring_bytes_;
  size_t part_bytes_;
};

}  // namespace tutti

#endif  // TUTTI_SRC_TRANSPORT_SHM_SEGMENT_LAYOUT_H_
