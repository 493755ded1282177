// Gather and scatter kDirect: the root receives every block from its owner, or sends it there, in one message. The
// others have one connection each, so this is for any number of ranks.
//
// Broadcast kDirect: with more than one rank to serve, the root need not send anything twice. The operand is cut into
// n - 1 slices, one for each other rank; the root sends a slice to its rank, which sends it to all others but the root.
// The root sends the operand once, and the others receive it once: the fewest bytes there can be, two messages deep.
// For n = 4 and root 0:
//
//   0 -> 1: slice 0    0 -> 2: slice 1    0 -> 3: slice 2
//   1 -> 2 3: slice 0  2 -> 3 1: slice 1  3 -> 1 2: slice 2

#include <algorithm>

#include "src/schedule/algorithms.h"
#include "src/schedule/schedule_builder.h"

namespace tutti {
namespace {

Operand Slice(Space space, int slice) { return {space, static_cast<uint32_t>(slice)}; }

}  // namespace

Schedule DirectGather(const ScheduleKey& key) {
  ScheduleBuilder builder(key, static_cast<uint32_t>(key.size));
  if (key.rank != key.root) {
    builder.Send(Slice(kInput, key.rank), key.root);
    return std::move(builder).Build();
  }
  builder.Copy(Slice(kInput, key.rank), Slice(kOutput, key.rank));
  for (int owner = 0; owner < key.size; ++owner) {
    if (owner != key.root) builder.Recv(owner, Slice(kOutput, owner));
  }
  return std::move(builder).Build();
}

Schedule DirectScatter(const ScheduleKey& key) {
  ScheduleBuilder builder(key, static_cast<uint32_t>(key.size));
  if (key.rank != key.root) {
    builder.Recv(key.root, Slice(kOutput, key.rank));
    return std::move(builder).Build();
  }
  builder.Copy(Slice(kInput, key.rank), Slice(kOutput, key.rank));
  for (int owner = 0; owner < key.size; ++owner) {
    if (owner != key.root) builder.Send(Slice(kInput, owner), owner);
  }
  return std::move(builder).Build();
}

Schedule DirectBroadcast(const ScheduleKey& key) {
  const int slices = std::max(1, key.size - 1);
  ScheduleBuilder builder(key, static_cast<uint32_t>(slices));
  if (key.size == 1) return std::move(builder).Build();
  const auto owner = [&](int slice) { return (key.root + 1 + slice) % key.size; };
  if (key.rank == key.root) {
    for (int slice = 0; slice < slices; ++slice) builder.Send(Slice(kInput, slice), owner(slice));
    return std::move(builder).Build();
  }
  const int own = (key.rank + key.size - key.root - 1) % key.size;
  builder.Recv(key.root, Slice(kOutput, own));
  for (int distance = 1; distance < slices; ++distance) {
    builder.Send(Slice(kOutput, own), owner((own + distance) % slices));
  }
  for (int distance = 1; distance < slices; ++distance) {
    const int slice = (own + slices - distance) % slices;
    builder.Recv(owner(slice), Slice(kOutput, slice));
  }
  return std::move(builder).Build();
}

}  // namespace tutti
