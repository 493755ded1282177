// All-reduce kDoubling: neighbours exchange whole partial results, at distance 1, 2, 4, ...
//
// After folding to 2^k positions (fold.h), every position holds a partial result. In the phase of distance d, position
// p exchanges its partial with p xor d, and both combine the two, the lower position's on the left. The partial then
// stands for the 2d adjacent positions around p, which is a node of the canonical tree; after k phases it is the root.
// For n = 5, where rank 1 is folded into rank 0 and ranks 2 3 4 are the positions 1 2 3:
//
//   rank 1 -> 0: x1        0: (0 1)
//   distance 1:  0 <-> 2   0, 2: ((0 1) 2)          3 <-> 4   3, 4: (3 4)
//   distance 2:  0 <-> 3   0, 3: (((0 1) 2) (3 4))  2 <-> 4   likewise
//   rank 0 -> 1: the result
//
// Each rank evaluates the root itself, from the same bits. The partial lies in kOutput, or, in a wide schedule, in a
// plane. Contributions arrive in two planes by turns, so that one may arrive while the one before is being combined.

#include "src/schedule/algorithms.h"
#include "src/schedule/fold.h"
#include "src/schedule/schedule_builder.h"

namespace tutti {
namespace {

constexpr Operand kWholeInput = {.space = kInput};
constexpr Operand kWholeOutput = {.space = kOutput};

class Doubling {
 public:
  explicit Doubling(const ScheduleKey& key) : key_(key), fold_(key.size), builder_(key, /*slices=*/1) {}

  Schedule Build() && {
    partial_ = kWholeInput;
    home_ = key_.wide ? AddPlane() : kWholeOutput;
    if (key_.wide) Widen();
    if (fold_.IsFolded(key_.rank)) {
      BeFolded();
    } else {
      Exchange();
    }
    return std::move(builder_).Build();
  }

 private:
  Operand AddPlane() { return {.space = builder_.AddPlane(0, 1)}; }

  void Widen() {
    builder_.Copy(kWholeInput, home_);
    partial_ = home_;
  }

  void BeFolded() {
    builder_.Send(partial_, key_.rank - 1);
    builder_.Recv(key_.rank - 1, kWholeOutput);
  }

  void Exchange() {
    const uint32_t position = fold_.PositionOf(key_.rank);
    const bool pair = fold_.IsPair(position);
    if (pair) {
      const Operand plane = AddPlane();
      builder_.Recv(key_.rank + 1, plane);
      Combine(partial_, plane, /*last=*/false);
    }
    Operand planes[2];
    uint32_t phase = 0;
    for (uint32_t distance = 1; distance < fold_.positions(); distance *= 2, ++phase) {
      const int peer = fold_.RankAt(position ^ distance);
      if (phase < 2) planes[phase] = AddPlane();
      const Operand& plane = planes[phase % 2];
      builder_.Send(partial_, peer);
      builder_.Recv(peer, plane);
      const bool last = 2 * distance == fold_.positions();
      if (peer < key_.rank) {
        Combine(plane, partial_, last);
      } else {
        Combine(partial_, plane, last);
      }
    }
    if (key_.wide || key_.size == 1) builder_.Finish(partial_, kWholeOutput);
    if (pair) builder_.Send(kWholeOutput, key_.rank + 1);
  }

  void Combine(const Operand& left, const Operand& right, bool last) {
    if (last && !key_.wide) {
      builder_.ReduceFinal({left, right}, home_);
    } else {
      builder_.Reduce({left, right}, home_);
    }
    partial_ = home_;
  }

  const ScheduleKey& key_;
  const Fold fold_;
  ScheduleBuilder builder_;
  Operand partial_;  // what this rank holds
  Operand home_;     // where it keeps what it combines
};

}  // namespace

Schedule DoublingAllReduce(const ScheduleKey& key) { return Doubling(key).Build(); }

}  // namespace tutti
