// All-reduce kHalving: neighbours exchange halves of what they hold, at distance 1, 2, 4, ..., and then the same way
// back.
//
// After folding to 2^k positions (fold.h), the operand is cut into 2^k slices. In the phase of distance d, position p
// keeps one half of its range of slices and sends the other to p xor d, which keeps that one: the lower half for the
// lower position. It combines what it keeps with what it receives, the lower position's on the left. After k phases
// each position holds one slice, reduced over all: the root of the canonical tree, as distances double just as they do
// in kDoubling. The way back runs the phases from last to first; ranges grow as finished slices are exchanged. For n =
// 4, the ranges held:
//
//   position   start     d = 1   d = 2   back d = 2   back d = 1
//      0       0 1 2 3   0 1     0       0 1          0 1 2 3
//      1       0 1 2 3   2 3     2       2 3          0 1 2 3
//      2       0 1 2 3   0 1     1       0 1          0 1 2 3
//      3       0 1 2 3   2 3     3       2 3          0 1 2 3
//
// 2 (n-1)/n times the operand in 2k messages. The range combined lies in kOutput or, in a wide schedule, in a plane; it
// is finished before the way back, so that the way back moves elements.

#include <vector>

#include "src/schedule/algorithms.h"
#include "src/schedule/fold.h"
#include "src/schedule/schedule_builder.h"

namespace tutti {
namespace {

// A range of slices.
struct Range {
  uint32_t first = 0;
  uint32_t count = 0;

  Range Lower() const { return {first, count / 2}; }
  Range Upper() const { return {first + count / 2, count / 2}; }
  Operand In(Space space) const { return {space, first, count}; }
};

class Halving {
 public:
  explicit Halving(const ScheduleKey& key)
      : key_(key), fold_(key.size), builder_(key, fold_.positions()), all_{0, fold_.positions()} {}

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
  // What was sent to a peer, and will come back from it finished.
  struct Phase {
    int peer;
    Range kept;
    Range sent;
  };

  void Widen() {
    partial_ = home_ = builder_.AddPlane(0, all_.count);
    builder_.Copy(all_.In(kInput), all_.In(home_));
  }

  void BeFolded() {
    builder_.Send(all_.In(partial_), key_.rank - 1);
    builder_.Recv(key_.rank - 1, all_.In(kOutput));
  }

  void Act() {
    const bool pair = fold_.IsPair(fold_.PositionOf(key_.rank));
    if (pair) RecvAndCombine(key_.rank + 1, all_, /*last=*/false);
    ReduceScatter();
    AllGather();
    if (pair) builder_.Send(all_.In(kOutput), key_.rank + 1);
  }

  void ReduceScatter() {
    const uint32_t position = fold_.PositionOf(key_.rank);
    Range held = all_;
    for (uint32_t distance = 1; distance < fold_.positions(); distance *= 2) {
      const bool keep_lower = (position & distance) == 0;
      const Phase phase = {.peer = fold_.RankAt(position ^ distance),
                           .kept = keep_lower ? held.Lower() : held.Upper(),
                           .sent = keep_lower ? held.Upper() : held.Lower()};
      builder_.Send(phase.sent.In(partial_), phase.peer);
      RecvAndCombine(phase.peer, phase.kept, /*last=*/phase.kept.count == 1);
      phases_.push_back(phase);
      held = phase.kept;
    }
    if (key_.wide || key_.size == 1) builder_.Finish(held.In(partial_), held.In(kOutput));
  }

  void RecvAndCombine(int peer, const Range& range, bool last) {
    const Operand mine = range.In(partial_);
    const Operand theirs = range.In(builder_.AddPlane(range.first, range.count));
    const Operand left = peer < key_.rank ? theirs : mine;
    const Operand right = peer < key_.rank ? mine : theirs;
    builder_.Recv(peer, theirs);
    if (last && !key_.wide) {
      builder_.ReduceFinal({left, right}, range.In(home_));
    } else {
      builder_.Reduce({left, right}, range.In(home_));
    }
    partial_ = home_;
  }

  void AllGather() {
    for (size_t i = phases_.size(); i-- > 0;) {
      builder_.Send(phases_[i].kept.In(kOutput), phases_[i].peer);
      builder_.Recv(phases_[i].peer, phases_[i].sent.In(kOutput));
    }
  }

  const ScheduleKey& key_;
  const Fold fold_;
  ScheduleBuilder builder_;
  const Range all_;
  Space partial_ = kInput;  // where this rank's partial results lie
  Space home_ = kOutput;    // where it keeps what it combines
  std::vector<Phase> phases_;
};

}  // namespace

Schedule HalvingAllReduce(const ScheduleKey& key) { return Halving(key).Build(); }

}  // namespace tutti
