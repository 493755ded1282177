// Broadcast, gather and scatter kTree: along a binomial tree (binomial_tree.h).
//
// Broadcast: the whole operand goes down, the largest subtree served first. It is one slice in place; long ones flow in
// segments, which is the engine's matter.
//
// Scatter: the blocks of a subtree go down to its top, which keeps its own and hands on the others. Gather: they come
// up the same way. An inner rank holds the blocks of others in scratch planes, and hands on each as soon as it is here;
// between two ranks they travel in order of position. A block takes at most ceil(log2 n) hops.

#include "src/schedule/algorithms.h"
#include "src/schedule/binomial_tree.h"
#include "src/schedule/schedule_builder.h"

namespace tutti {
namespace {

Operand BlockOf(Space space, int owner) { return {space, static_cast<uint32_t>(owner)}; }

Operand AddPlaneFor(ScheduleBuilder& builder, int owner) {
  return BlockOf(builder.AddPlane(static_cast<uint32_t>(owner), 1), owner);
}

}  // namespace

Schedule TreeBroadcast(const ScheduleKey& key) {
  ScheduleBuilder builder(key, /*slices=*/1);
  const BinomialTree tree(key.size, key.root);
  const uint32_t position = tree.PositionOf(key.rank);
  const Operand data = {.space = position == 0 ? kInput : kOutput};
  if (position != 0) builder.Recv(tree.RankAt(tree.ParentOf(position)), data);
  for (const uint32_t child : tree.ChildrenOf(position)) builder.Send(data, tree.RankAt(child));
  return std::move(builder).Build();
}

Schedule TreeScatter(const ScheduleKey& key) {
  ScheduleBuilder builder(key, static_cast<uint32_t>(key.size));
  const BinomialTree tree(key.size, key.root);
  const uint32_t position = tree.PositionOf(key.rank);
  const Operand own = BlockOf(kOutput, key.rank);
  if (position == 0) {
    builder.Copy(BlockOf(kInput, key.rank), own);
  } else {
    builder.Recv(tree.RankAt(tree.ParentOf(position)), own);
  }
  std::vector<Operand> blocks;  // of the positions below this one
  for (uint32_t p = position + 1; p < tree.EndOf(position); ++p) {
    const int owner = tree.RankAt(p);
    blocks.push_back(position == 0 ? BlockOf(kInput, owner) : AddPlaneFor(builder, owner));
    if (position != 0) builder.Recv(tree.RankAt(tree.ParentOf(position)), blocks.back());
  }
  for (const uint32_t child : tree.ChildrenOf(position)) {
    for (uint32_t p = child; p < tree.EndOf(child); ++p) {
      builder.Send(blocks[p - position - 1], tree.RankAt(child));
    }
  }
  return std::move(builder).Build();
}

Schedule TreeGather(const ScheduleKey& key) {
  ScheduleBuilder builder(key, static_cast<uint32_t>(key.size));
  const BinomialTree tree(key.size, key.root);
  const uint32_t position = tree.PositionOf(key.rank);
  const Operand own = BlockOf(kInput, key.rank);
  const auto hand_on = [&](const Operand& block) {
    if (position != 0) builder.Send(block, tree.RankAt(tree.ParentOf(position)));
  };
  if (position == 0) builder.Copy(own, BlockOf(kOutput, key.rank));
  hand_on(own);
  const std::vector<uint32_t> children = tree.ChildrenOf(position);
  for (auto child = children.rbegin(); child != children.rend(); ++child) {  // by position
    for (uint32_t p = *child; p < tree.EndOf(*child); ++p) {
      const int owner = tree.RankAt(p);
      const Operand block = position == 0 ? BlockOf(kOutput, owner) : AddPlaneFor(builder, owner);
      builder.Recv(tree.RankAt(*child), block);
      hand_on(block);
    }
  }
  return std::move(builder).Build();
}

}  // namespace tutti
