// All-to-all. Slice d of the input is the block for the rank d further on, slice d of the output the block from the
// rank d before (mod n), so that slice 0 stays here and a block has the same number wherever it is.
//
// kDirect: slice d goes to rank r + d in one message.
//
// kBruck: a block hops by the binary digits of its distance. In the phase of distance b = 1, 2, 4, ... every rank sends
// the slices whose number has bit b to rank r + b, and receives the same slices from rank r - b. After the phase of its
// highest bit, slice d has come d ranks far and is in the output; until then it waits in a plane. For n = 4, on rank 0,
// where "2>3" is the block from rank 2 for rank 3:
//
//   slice   start   after b = 1      after b = 2
//     1      0>1    3>0 (output)     3>0
//     2      0>2    0>2              2>0 (output)
//     3      0>3    3>2 (plane)      1>0 (output)
//
// ceil(log2 n) messages deep with as many peers to send to, but a block travels as often as its distance has bits: for
// small blocks and many ranks. A block that arrives in a plane takes the other one than the block it follows there, so
// that it may arrive while that is being sent.

#include <algorithm>
#include <bit>
#include <vector>

#include "src/schedule/algorithms.h"
#include "src/schedule/schedule_builder.h"

namespace tutti {

Schedule DirectAllToAll(const ScheduleKey& key) {
  const uint32_t size = static_cast<uint32_t>(key.size);
  ScheduleBuilder builder(key, size);
  builder.Copy({kInput, 0}, {kOutput, 0});
  for (uint32_t d = 1; d < size; ++d) builder.Send({kInput, d}, static_cast<int>((key.rank + d) % size));
  for (uint32_t d = 1; d < size; ++d) builder.Recv(static_cast<int>((key.rank + size - d) % size), {kOutput, d});
  return std::move(builder).Build();
}

Schedule BruckAllToAll(const ScheduleKey& key) {
  const uint32_t size = static_cast<uint32_t>(key.size);
  ScheduleBuilder builder(key, size);
  builder.Copy({kInput, 0}, {kOutput, 0});
  const int hops = std::bit_width(size) - 1;  // the most that a block takes
  Space planes[2] = {};
  for (int i = 0; i < std::min(2, hops - 1); ++i) planes[i] = builder.AddPlane(0, size);
  std::vector<Operand> blocks;  // where the slices lie
  for (uint32_t d = 0; d < size; ++d) blocks.push_back({kInput, d});
  for (uint32_t bit = 1; bit < size; bit *= 2) {
    for (uint32_t d = bit; d < size; ++d) {
      if ((d & bit) != 0) builder.Send(blocks[d], static_cast<int>((key.rank + bit) % size));
    }
    for (uint32_t d = bit; d < size; ++d) {
      if ((d & bit) == 0) continue;
      const uint32_t hops_before = static_cast<uint32_t>(std::popcount(d & (bit - 1)));
      blocks[d].space = d < 2 * bit ? kOutput : planes[hops_before % 2];
      builder.Recv(static_cast<int>((key.rank + size - bit) % size), blocks[d]);
    }
  }
  return std::move(builder).Build();
}

}  // namespace tutti
