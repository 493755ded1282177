// All-reduce kDoubling and kQuadrupling: groups of neighbours exchange whole partial results, at distance 1, r, r^2,
// ...
//
// r, the radix, is 2 or 4. After folding to 2^k positions (fold.h), every position holds a partial result. In the phase
// of distance d, the r positions that differ only in their digit of weight d form a group: each sends its partial to
// all others of it, and all combine the r partials by the canonical tree, lower positions to the left. The partial then
// stands for the r * d adjacent positions around p. Since r is a power of two this is a node of the canonical tree, and
// after the last phase it is the root. If r does not divide what is left of the positions, the last groups are pairs.
// For kDoubling and n = 5, where rank 1 is folded into rank 0 and ranks 2 3 4 are the positions 1 2 3:
//
//   rank 1 -> 0: x1        0: (0 1)
//   distance 1:  0 <-> 2   0, 2: ((0 1) 2)          3 <-> 4   3, 4: (3 4)
//   distance 2:  0 <-> 3   0, 3: (((0 1) 2) (3 4))  2 <-> 4   likewise
//   rank 0 -> 1: the result
//
// kQuadrupling has half as many phases of three times the messages: it is quicker where waiting for a message to arrive
// takes longer than to send two more.
//
// Each rank evaluates the root itself, from the same bits. The partial lies in kOutput, or, in a wide schedule, in a
// plane. Contributions arrive in two sets of planes by turns, so that the next may arrive while others are combined.

#include <algorithm>
#include <vector>

#include "src/schedule/algorithms.h"
#include "src/schedule/fold.h"
#include "src/schedule/schedule_builder.h"

namespace tutti {
namespace {

constexpr Operand kWholeInput = {.space = kInput};
constexpr Operand kWholeOutput = {.space = kOutput};

class Doubling {
 public:
  Doubling(const ScheduleKey& key, uint32_t radix)
      : key_(key), radix_(radix), fold_(key.size), builder_(key, /*slices=*/1) {}

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
      Combine({partial_, plane}, /*last=*/false);
    }
    std::vector<Operand> planes[2];
    for (uint32_t distance = 1, phase = 0; distance < fold_.positions(); ++phase) {
      const uint32_t members = std::min(radix_, fold_.positions() / distance);
      ExchangeInGroup(position, distance, members, planes[phase % 2]);
      distance *= members;
    }
    if (key_.wide || key_.size == 1) builder_.Finish(partial_, kWholeOutput);
    if (pair) builder_.Send(kWholeOutput, key_.rank + 1);
  }

  void ExchangeInGroup(uint32_t position, uint32_t distance, uint32_t members, std::vector<Operand>& planes) {
    const uint32_t own = position / distance % members;
    const auto rank_at = [&](uint32_t member) { return fold_.RankAt(position + member * distance - own * distance); };
    std::vector<Operand> partials(members, partial_);
    while (planes.size() + 1 < members) planes.push_back(AddPlane());
    for (uint32_t i = 1; i < members; ++i) builder_.Send(partial_, rank_at((own + i) % members));
    for (uint32_t i = 1; i < members; ++i) {
      const uint32_t member = (own + members - i) % members;
      partials[member] = planes[i - 1];
      builder_.Recv(rank_at(member), planes[i - 1]);
    }
    Combine(partials, /*last=*/distance * members == fold_.positions());
  }

  void Combine(absl::Span<const Operand> partials, bool last) {
    if (last && !key_.wide) {
      builder_.ReduceFinal(partials, home_);
    } else {
      builder_.Reduce(partials, home_);
    }
    partial_ = home_;
  }

  const ScheduleKey& key_;
  const uint32_t radix_;
  const Fold fold_;
  ScheduleBuilder builder_;
  Operand partial_;  // what this rank holds
  Operand home_;     // where it keeps what it combines
};

}  // namespace

Schedule DoublingAllReduce(const ScheduleKey& key) { return Doubling(key, /*radix=*/2).Build(); }

Schedule QuadruplingAllReduce(const ScheduleKey& key) { return Doubling(key, /*radix=*/4).Build(); }

}  // namespace tutti
