#include "src/engine/layout.h"

#include <algorithm>
#include <numeric>

namespace tutti {
namespace {

constexpr size_t kCacheLine = 64;

size_t RoundUp(size_t bytes) { return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine; }

uint64_t DivideRoundingUp(uint64_t dividend, uint64_t divisor) { return (dividend + divisor - 1) / divisor; }

// Whether the caller's memory consists of the blocks of all ranks.
bool InputIsWhole(Collective collective) {
  return collective == Collective::kReduceScatter || collective == Collective::kScatter ||
         collective == Collective::kAllToAll;
}
bool OutputIsWhole(Collective collective) {
  return collective == Collective::kAllGather || collective == Collective::kGather ||
         collective == Collective::kAllToAll;
}

}  // namespace

void Layout::Bind(const Schedule& schedule, const Operands& operands, uint64_t segment_count, size_t element_bytes,
                  size_t plane_element_bytes) {
  schedule_ = &schedule;
  segment_count_ = segment_count;
  element_bytes_ = element_bytes;
  plane_element_bytes_ = plane_element_bytes;
  slice_alignment_ = kSliceAlignmentBytes / element_bytes;
  uneven_ = !operands.input_counts.empty() || !operands.output_counts.empty();
  blocked_ = InputIsWhole(schedule.collective) || OutputIsWhole(schedule.collective);
  auto* input = static_cast<std::byte*>(const_cast<void*>(operands.input));
  BindSide(input_, input, InputIsWhole(schedule.collective), operands.count, operands.input_counts);
  BindSide(output_, static_cast<std::byte*>(operands.output), OutputIsWhole(schedule.collective), operands.count,
           operands.output_counts);

  const uint64_t largest = std::max(LargestBlock(input_), LargestBlock(output_));
  // An empty operand still has one (empty) segment: its messages carry the fingerprint.
  segments_ = std::max<uint64_t>(1, DivideRoundingUp(largest, segment_count));
  // Uneven blocks wait in planes only to be reduced into this rank's.
  plane_block_ = uneven_ ? output_.count : operands.count;
  plane_stride_ = std::min(plane_block_, segment_count);
  plane_offsets_.clear();
  scratch_bytes_ = 0;
  for (const Plane& plane : schedule.planes) {
    plane_offsets_.push_back(scratch_bytes_);
    const uint64_t elements =
        blocked_ ? plane.count * plane_stride_
                 : StartOf(plane.first + plane.count, plane_stride_) - StartOf(plane.first, plane_stride_);
    scratch_bytes_ += RoundUp(elements * plane_element_bytes);
  }
}

void Layout::BindSide(Side& side, std::byte* data, bool whole, uint64_t count, absl::Span<const size_t> counts) {
  side.data = data;
  side.whole = whole;
  side.count = !uneven_ ? count : whole || counts.empty() ? 0 : counts[0];
  side.starts.clear();
  if (!whole || counts.empty()) return;
  side.starts.resize(counts.size() + 1);
  std::partial_sum(counts.begin(), counts.end(), side.starts.begin() + 1);
}

uint64_t Layout::LargestBlock(const Side& side) const {
  uint64_t largest = side.count;
  for (size_t i = 1; i < side.starts.size(); ++i) largest = std::max(largest, side.starts[i] - side.starts[i - 1]);
  return largest;
}

uint64_t Layout::BlockOf(const Operand& operand) const {
  if (!SideOf(operand).whole) return 0;
  if (schedule_->collective != Collective::kAllToAll) return operand.first;
  const auto size = static_cast<uint64_t>(schedule_->size);
  const auto rank = static_cast<uint64_t>(schedule_->rank);
  return (operand.space == kInput ? rank + operand.first : rank + size - operand.first) % size;
}

uint64_t Layout::WholeBlock(const Operand& operand) const {
  if (operand.space >= kPlane) return plane_block_;
  const Side& side = SideOf(operand);
  const uint64_t block = BlockOf(operand);
  return side.starts.empty() ? side.count : side.starts[block + 1] - side.starts[block];
}

uint64_t Layout::BlockCount(const Operand& operand, uint64_t segment) const {
  const uint64_t begin = segment * segment_count_;
  const uint64_t count = WholeBlock(operand);
  return count > begin ? std::min(segment_count_, count - begin) : 0;
}

Layout::Range Layout::LocatePart(const Operand& operand, uint64_t segment, std::byte* scratch) const {
  const uint64_t begin = segment * segment_count_;
  const uint64_t elements = std::min(segment_count_, input_.count - begin);
  const uint64_t first = StartOf(operand.first, elements);
  const uint64_t length = StartOf(operand.first + operand.count, elements) - first;
  if (operand.space >= kPlane) {
    const uint64_t offset = first - StartOf(schedule_->planes[operand.space - kPlane].first, elements);
    return {scratch + plane_offsets_[operand.space - kPlane] + offset * plane_element_bytes_, length,
            length * plane_element_bytes_};
  }
  std::byte* base = operand.space == kInput ? input_.data : output_.data;
  return {base + (begin + first) * element_bytes_, length, length * element_bytes_};
}

Layout::Range Layout::LocateBlock(const Operand& operand, uint64_t segment, std::byte* scratch) const {
  const uint64_t length = BlockCount(operand, segment);
  if (operand.space >= kPlane) {
    const size_t plane = operand.space - kPlane;
    const uint64_t offset = (operand.first - schedule_->planes[plane].first) * plane_stride_;
    return {scratch + plane_offsets_[plane] + offset * plane_element_bytes_, length, length * plane_element_bytes_};
  }
  const Side& side = SideOf(operand);
  const uint64_t block = BlockOf(operand);
  const uint64_t first = side.starts.empty() ? block * side.count : side.starts[block];
  const uint64_t begin = length > 0 ? segment * segment_count_ : 0;
  return {side.data + (first + begin) * element_bytes_, length, length * element_bytes_};
}

}  // namespace tutti
