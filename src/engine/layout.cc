#include "src/engine/layout.h"

namespace tutti {
namespace {

constexpr size_t kCacheLine = 64;

size_t RoundUp(size_t bytes) { return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine; }

}  // namespace

void Layout::Bind(const Schedule& schedule, const void* input, void* output, uint64_t count, uint64_t segment_count,
                  size_t element_bytes, size_t plane_element_bytes) {
  schedule_ = &schedule;
  input_ = static_cast<const std::byte*>(input);
  output_ = static_cast<std::byte*>(output);
  count_ = count;
  segment_count_ = segment_count;
  // An empty operand still has one (empty) segment: its messages carry the fingerprint.
  segments_ = count == 0 ? 1 : (count + segment_count - 1) / segment_count;
  element_bytes_ = element_bytes;
  plane_element_bytes_ = plane_element_bytes;
  slice_alignment_ = kCacheLine / element_bytes;
  input_blocks_ = schedule.collective == Collective::kReduceScatter;
  output_blocks_ = schedule.collective == Collective::kAllGather;
  blocked_ = input_blocks_ || output_blocks_;

  const uint64_t largest = std::min(count, segment_count);
  plane_offsets_.clear();
  scratch_bytes_ = 0;
  for (const Plane& plane : schedule.planes) {
    plane_offsets_.push_back(scratch_bytes_);
    const uint64_t elements = blocked_
                                  ? plane.count * largest
                                  : SliceStart(plane.first + plane.count, largest) - SliceStart(plane.first, largest);
    scratch_bytes_ += RoundUp(elements * plane_element_bytes);
  }
}

}  // namespace tutti
