// Layout: from slices to bytes, for one operation.

#ifndef TUTTI_SRC_ENGINE_LAYOUT_H_
#define TUTTI_SRC_ENGINE_LAYOUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/schedule/schedule.h"

namespace tutti {

// Where the operands of an operation lie, and how its segments and slices cut them (schedule.h says what slices mean).
// The segments of an operation cover its elements in order; each is an instance of the schedule on its own elements.
class Layout {
 public:
  struct Range {
    std::byte* data = nullptr;
    uint64_t count = 0;  // elements
    uint64_t bytes = 0;
  };

  // `count`: elements of the operand, or of one block. `input` is never written.
  void Bind(const Schedule& schedule, const void* input, void* output, uint64_t count, uint64_t segment_count,
            size_t element_bytes, size_t plane_element_bytes);

  uint64_t segments() const { return segments_; }
  // Scratch that one segment needs, at any alignment of at least 64.
  size_t scratch_bytes() const { return scratch_bytes_; }

  // The elements that an operand names in a segment, whose scratch begins at `scratch`.
  Range Locate(const Operand& operand, uint64_t segment, std::byte* scratch) const {
    const uint64_t begin = segment * segment_count_;
    const uint64_t elements = std::min(segment_count_, count_ - begin);
    const uint64_t first = blocked_ ? 0 : SliceStart(operand.first, elements);
    const uint64_t length = blocked_ ? elements : SliceStart(operand.first + operand.count, elements) - first;
    if (operand.space >= kPlane) {
      const Plane& plane = schedule_->planes[operand.space - kPlane];
      const uint64_t offset =
          blocked_ ? (operand.first - plane.first) * elements : first - SliceStart(plane.first, elements);
      return {scratch + plane_offsets_[operand.space - kPlane] + offset * plane_element_bytes_, length,
              length * plane_element_bytes_};
    }
    const bool whole = operand.space == kInput ? input_blocks_ : output_blocks_;
    const uint64_t offset = begin + (blocked_ ? (whole ? operand.first * count_ : 0) : first);
    std::byte* base = operand.space == kInput ? const_cast<std::byte*>(input_) : output_;
    return {base + offset * element_bytes_, length, length * element_bytes_};
  }

 private:
  // Slices begin at cache lines, so the last ones may be shorter or empty.
  uint64_t SliceStart(uint64_t slice, uint64_t elements) const {
    const uint64_t even = (elements + schedule_->slices - 1) / schedule_->slices;
    const uint64_t step = (even + slice_alignment_ - 1) / slice_alignment_ * slice_alignment_;
    return std::min(elements, slice * step);
  }

  const Schedule* schedule_ = nullptr;
  const std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
  uint64_t count_ = 0;
  uint64_t segment_count_ = 1;
  uint64_t segments_ = 0;
  size_t element_bytes_ = 1;
  size_t plane_element_bytes_ = 1;
  uint64_t slice_alignment_ = 1;
  bool blocked_ = false;        // slices are blocks
  bool input_blocks_ = false;   // kInput holds all blocks, not only this rank's
  bool output_blocks_ = false;  // kOutput does
  std::vector<size_t> plane_offsets_;
  size_t scratch_bytes_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_SRC_ENGINE_LAYOUT_H_
