// Reduce kTree: a binomial tree whose every node is one of the canonical tree's.
//
// After folding to 2^k positions (fold.h), every position holds a partial result. The phase of distance d = 1, 2, 4,
// ... is for the positions that equal the root's in all bits below d. They pair up at distance d: the one whose bit d
// is the root's receives the other's partial and combines the two, the lower position's on the left; the other is done.
// What is combined stands for 2d adjacent positions, just as in kDoubling, and the root's position is left with the
// root of the canonical tree. For n = 5 and root 3, where rank 1 is folded into rank 0 and ranks 2 3 4 are the
// positions 1 2 3:
//
//   rank 1 -> 0: x1   0: (0 1)
//   distance 1:       2 -> 0   0: ((0 1) 2)             4 -> 3   3: (3 4)
//   distance 2:       0 -> 3   3: (((0 1) 2) (3 4))
//
// A root that is folded hands in its input like any other and gets the complete partial from its partner, which acts
// for it, and finishes it. Each partial arrives in a plane of its own and is combined there.

#include "src/schedule/algorithms.h"
#include "src/schedule/fold.h"
#include "src/schedule/schedule_builder.h"

namespace tutti {
namespace {

constexpr Operand kWholeOutput = {.space = kOutput};

class ReduceTree {
 public:
  explicit ReduceTree(const ScheduleKey& key) : key_(key), fold_(key.size), builder_(key, /*slices=*/1) {}

  Schedule Build() && {
    if (key_.wide) Widen();
    if (fold_.IsFolded(key_.rank)) {
      builder_.Send(partial_, key_.rank - 1);
      if (IsRoot()) partial_ = Recv(key_.rank - 1);
    } else {
      Act();
    }
    if (IsRoot() && !finished_) builder_.Finish(partial_, kWholeOutput);
    return std::move(builder_).Build();
  }

 private:
  bool IsRoot() const { return key_.rank == key_.root; }

  void Widen() {
    const Operand input = partial_;
    partial_ = AddPlane();
    builder_.Copy(input, partial_);
  }

  void Act() {
    const uint32_t position = fold_.PositionOf(key_.rank);
    const uint32_t root = fold_.PositionOf(key_.root);
    if (fold_.IsPair(position)) RecvAndCombine(key_.rank + 1, /*last=*/false);
    for (uint32_t distance = 1; distance < fold_.positions(); distance *= 2) {
      const int peer = fold_.RankAt(position ^ distance);
      if (((position ^ root) & distance) != 0) return Send(peer);
      RecvAndCombine(peer, /*last=*/2 * distance == fold_.positions());
    }
    if (!IsRoot()) Send(key_.root);
  }

  void RecvAndCombine(int peer, bool last) {
    const Operand mine = partial_;
    const Operand theirs = Recv(peer);
    const Operand left = peer < key_.rank ? theirs : mine;
    const Operand right = peer < key_.rank ? mine : theirs;
    if (last && IsRoot() && !key_.wide) {
      builder_.ReduceFinal({left, right}, kWholeOutput);
      finished_ = true;
    } else {
      builder_.Reduce({left, right}, theirs);
      partial_ = theirs;
    }
  }

  void Send(int peer) { builder_.Send(partial_, peer); }

  Operand Recv(int peer) {
    const Operand plane = AddPlane();
    builder_.Recv(peer, plane);
    return plane;
  }

  Operand AddPlane() { return {.space = builder_.AddPlane(0, 1)}; }

  const ScheduleKey& key_;
  const Fold fold_;
  ScheduleBuilder builder_;
  Operand partial_ = {.space = kInput};  // what this rank holds
  bool finished_ = false;
};

}  // namespace

Schedule TreeReduce(const ScheduleKey& key) { return ReduceTree(key).Build(); }

}  // namespace tutti
