// Fold: how n ranks become 2^k operands, as the canonical tree (canonical_tree.h) has it.
//
// With n = 2^k + m, the first 2m ranks pair up: 2j and 2j + 1. The odd rank hands its input to the even one, which acts
// for both, and gets the result from it in the end. What remains are 2^k acting ranks, numbered 0 .. 2^k-1 in order of
// rank: the *positions* of a butterfly. For n = 6 = 4 + 2:
//
//   rank       0   1   2   3   4   5
//   position   0  (0)  1  (1)  2   3        1 and 3 are folded into 0 and 2

#ifndef TUTTI_SRC_SCHEDULE_FOLD_H_
#define TUTTI_SRC_SCHEDULE_FOLD_H_

#include <cstdint>

#include "src/schedule/canonical_tree.h"

namespace tutti {

class Fold {
 public:
  explicit Fold(int size)
      : positions_(PowerOfTwoBelow(static_cast<uint32_t>(size))), paired_(static_cast<uint32_t>(size) - positions_) {}

  uint32_t positions() const { return positions_; }
  uint32_t PositionOf(int rank) const {
    const uint32_t r = static_cast<uint32_t>(rank);
    return r < 2 * paired_ ? r / 2 : r - paired_;
  }
  // The rank that acts at a position.
  int RankAt(uint32_t position) const {
    return static_cast<int>(position < paired_ ? 2 * position : position + paired_);
  }
  // Whether the rank after the acting one is folded into it.
  bool IsPair(uint32_t position) const { return position < paired_; }
  bool IsFolded(int rank) const { return RankAt(PositionOf(rank)) != rank; }

 private:
  uint32_t positions_;
  uint32_t paired_;
};

}  // namespace tutti

#endif  // TUTTI_SRC_SCHEDULE_FOLD_H_
