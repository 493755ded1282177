// Reduce-scatter kHalving: neighbours exchange halves of the blocks they hold, at distance 1, 2, 4, ...
//
// After folding to 2^k positions (fold.h), every position holds a partial result of all n blocks. In the phase of
// distance d, position p and p xor d part the blocks they both hold: those of the ranks whose position has the same bit
// d as p stay with p, the others go to the peer. So a position need never hold blocks that are adjacent, and when the
// distances are used up it is left with its own rank's block (and its folded rank's) and nothing remains to be moved.
// For n = 4, the blocks held:
//
//   position   start     d = 1   d = 2
//      0       0 1 2 3   0 2     0
//      1       0 1 2 3   1 3     1
//      2       0 1 2 3   0 2     2
//      3       0 1 2 3   1 3     3
//
// Each block travels as a message of its own, into a scratch plane of its own, where it is combined with what was held
// before, the lower position on the left: distances double, so this is the canonical tree. The planes add up to the
// size of the input. The input is only read.

#include <vector>

#include "src/schedule/algorithms.h"
#include "src/schedule/fold.h"
#include "src/schedule/schedule_builder.h"

namespace tutti {
namespace {

class HalvingScatter {
 public:
  explicit HalvingScatter(const ScheduleKey& key)
      : key_(key),
        fold_(key.size),
        builder_(key, static_cast<uint32_t>(key.size)),
        output_{kOutput, static_cast<uint32_t>(key.rank)} {
    for (int block = 0; block < key.size; ++block) partials_.push_back({kInput, static_cast<uint32_t>(block)});
  }

  Schedule Build() && {
    if (key_.wide) Widen();
    if (fold_.IsFolded(key_.rank)) {
      BeFolded();
    } else {
      Act();
    }
    return std::move(builder_).Build();
  }

 private:
  void Widen() {
    const Space wide = builder_.AddPlane(0, static_cast<uint32_t>(key_.size));
    for (Operand& partial : partials_) {
      const Operand input = partial;
      partial.space = wide;
      builder_.Copy(input, partial);
    }
  }

  void BeFolded() {
    for (const Operand& partial : partials_) builder_.Send(partial, key_.rank - 1);
    const Operand partial = AddPlane(key_.rank);
    builder_.Recv(key_.rank - 1, partial);
    builder_.Finish(partial, output_);
  }

  void Act() {
    const uint32_t position = fold_.PositionOf(key_.rank);
    const bool pair = fold_.IsPair(position);
    if (pair) {
      for (int block = 0; block < key_.size; ++block) RecvAndCombine(key_.rank + 1, block, /*last=*/false);
    }
    for (uint32_t distance = 1; distance < fold_.positions(); distance *= 2) {
      const uint32_t other = position ^ distance;
      const int peer = fold_.RankAt(other);
      ForBlocksOf(other, 2 * distance, [&](int block) { builder_.Send(partials_[block], peer); });
      const bool last = 2 * distance == fold_.positions();
      ForBlocksOf(position, 2 * distance, [&](int block) { RecvAndCombine(peer, block, last); });
    }
    if (pair) builder_.Send(partials_[key_.rank + 1], key_.rank + 1);
    if (key_.wide || key_.size == 1) builder_.Finish(partials_[key_.rank], output_);
  }

  // The blocks of the ranks at the positions that equal `position` modulo `modulus`.
  template <typename Visit>
  void ForBlocksOf(uint32_t position, uint32_t modulus, const Visit& visit) {
    for (uint32_t p = position % modulus; p < fold_.positions(); p += modulus) {
      visit(fold_.RankAt(p));
      if (fold_.IsPair(p)) visit(fold_.RankAt(p) + 1);
    }
  }

  void RecvAndCombine(int peer, int block, bool last) {
    const Operand mine = partials_[block];
    const Operand theirs = AddPlane(block);
    const Operand left = peer < key_.rank ? theirs : mine;
    const Operand right = peer < key_.rank ? mine : theirs;
    builder_.Recv(peer, theirs);
    if (last && block == key_.rank && !key_.wide) {
      builder_.ReduceFinal({left, right}, output_);
    } else {
      builder_.Reduce({left, right}, theirs);
      partials_[block] = theirs;
    }
  }

  Operand AddPlane(int block) {
    const uint32_t slice = static_cast<uint32_t>(block);
    return {builder_.AddPlane(slice, 1), slice};
  }

  const ScheduleKey& key_;
  const Fold fold_;
  ScheduleBuilder builder_;
  const Operand output_;
  std::vector<Operand> partials_;  // by block: what this rank holds
};

}  // namespace

Schedule HalvingReduceScatter(const ScheduleKey& key) { return HalvingScatter(key).Build(); }

}  // namespace tutti
