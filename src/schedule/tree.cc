// Broadcast kTree: a binomial tree.
//
// Positions are ranks counted from the root: p = (rank - root) mod n. The parent of position p is p without its lowest
// set bit; its children are p + b for the powers of two b below that bit (for the root: below n), as far as they exist.
// For n = 6:
//
//   0 --> 4 --> 5
//     --> 2 --> 3
//     --> 1
//
// The largest subtree is served first. The operand is one slice in place; long ones flow down the tree in segments,
// which is the engine's matter.

#include <bit>

#include "src/schedule/algorithms.h"
#include "src/schedule/schedule_builder.h"

namespace tutti {

Schedule TreeBroadcast(const ScheduleKey& key) {
  ScheduleBuilder builder(key, /*slices=*/1);
  const Operand data = {.space = key.rank == key.root ? kInput : kOutput};
  const uint32_t size = static_cast<uint32_t>(key.size);
  const uint32_t position = static_cast<uint32_t>((key.rank - key.root + key.size) % key.size);
  const auto rank_at = [&](uint32_t p) { return static_cast<int>((p + key.root) % size); };

  const uint32_t lowest_bit = position == 0 ? std::bit_ceil(size) : position & (~position + 1);
  if (position != 0) builder.Recv(rank_at(position - lowest_bit), data);
  for (uint32_t bit = lowest_bit / 2; bit != 0; bit /= 2) {
    if (position + bit < size) builder.Send(data, rank_at(position + bit));
  }
  return std::move(builder).Build();
}

}  // namespace tutti
