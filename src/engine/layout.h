// Layout: from slices to bytes, for one operation.

#ifndef TUTTI_SRC_ENGINE_LAYOUT_H_
#define TUTTI_SRC_ENGINE_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "src/schedule/schedule.h"

namespace tutti {

// Where the operands of an operation lie, and how its segments and slices cut them (schedule.h says what slices mean).
// The segments of an operation cover its elements, or those of each of its blocks, in order; each is an instance of the
// schedule on its own elements.
class Layout {
 public:
  struct Operands {
    const void* input = nullptr;  // never written
    void* output = nullptr;
    uint64_t count = 0;  // elements of the operand, or of one block
    // Where blocks are uneven: the elements of each block by rank, or of the only one. Both are empty, or neither.
    absl::Span<const size_t> input_counts = {}, output_counts = {};
  };
  struct Range {
    std::byte* data = nullptr;
    uint64_t count = 0;  // elements
    uint64_t bytes = 0;
  };

  // `segment_count`: elements of a segment, of the operand or of each block.
  void Bind(const Schedule& schedule, const Operands& operands, uint64_t segment_count, size_t element_bytes,
            size_t plane_element_bytes);

  // At least 1. Of uneven blocks, those that this rank knows of: the number may differ between ranks.
  uint64_t segments() const { return segments_; }
  // Scratch that one segment needs, at any alignment of at least 64.
  size_t scratch_bytes() const { return scratch_bytes_; }

  // Whether the message of this operand is left out: both sides know that there is nothing in it. The first segment's
  // messages are never left out; they carry the fingerprint.
  bool Omits(const Operand& operand, uint64_t segment) const {
    return uneven_ && segment > 0 && BlockCount(operand, segment) == 0;
  }

  // Of uneven blocks: the whole block that an operand is a part of; else 0.
  uint64_t BlockBytes(const Operand& operand) const { return uneven_ ? WholeBlock(operand) * element_bytes_ : 0; }

  // The elements that an operand names in a segment, whose scratch begins at `scratch`.
  Range Locate(const Operand& operand, uint64_t segment, std::byte* scratch) const {
    return blocked_ ? LocateBlock(operand, segment, scratch) : LocatePart(operand, segment, scratch);
  }

 private:
  // The caller's memory, as blocks.
  struct Side {
    std::byte* data = nullptr;
    bool whole = false;            // all blocks, in order of rank; or one
    uint64_t count = 0;            // of each block, if even; or of the one
    std::vector<uint64_t> starts;  // if whole and uneven: where each block begins, and the end
  };

  void BindSide(Side& side, std::byte* data, bool whole, uint64_t count, absl::Span<const size_t> counts);
  uint64_t LargestBlock(const Side& side) const;
  const Side& SideOf(const Operand& operand) const { return operand.space == kInput ? input_ : output_; }
  // Which block of its side an operand is.
  uint64_t BlockOf(const Operand& operand) const;
  uint64_t WholeBlock(const Operand& operand) const;
  // The elements of an operand's block that are in the segment.
  uint64_t BlockCount(const Operand& operand, uint64_t segment) const;
  Range LocatePart(const Operand& operand, uint64_t segment, std::byte* scratch) const;
  Range LocateBlock(const Operand& operand, uint64_t segment, std::byte* scratch) const;

  uint64_t StartOf(uint64_t slice, uint64_t elements) const {
    return SliceStart(slice, schedule_->slices, elements, slice_alignment_);
  }

  const Schedule* schedule_ = nullptr;
  uint64_t segment_count_ = 1;
  uint64_t segments_ = 0;
  size_t element_bytes_ = 1;
  size_t plane_element_bytes_ = 1;
  uint64_t slice_alignment_ = 1;
  bool blocked_ = false;  // slices are blocks
  bool uneven_ = false;
  Side input_, output_;
  uint64_t plane_block_ = 0;   // elements of a block that a plane holds
  uint64_t plane_stride_ = 0;  // between the blocks of a plane
  std::vector<size_t> plane_offsets_;
  size_t scratch_bytes_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_SRC_ENGINE_LAYOUT_H_
