// Binomial tree over all ranks, for what needs no order among them.
//
// Positions are ranks counted from the root: p = (rank - root) mod n. The parent of position p is p without its lowest
// set bit; its children are p + b for the powers of two b below that bit (for the root: below n), as far as they exist.
// The positions below p, and p itself, are adjacent: p and on, up to its next sibling. For n = 6:
//
//   0 --> 4 --> 5
//     --> 2 --> 3
//     --> 1

#ifndef TUTTI_SRC_SCHEDULE_BINOMIAL_TREE_H_
#define TUTTI_SRC_SCHEDULE_BINOMIAL_TREE_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace tutti {

class BinomialTree {
 public:
  BinomialTree(int size, int root) : size_(static_cast<uint32_t>(size)), root_(static_cast<uint32_t>(root)) {}

  uint32_t PositionOf(int rank) const { return (static_cast<uint32_t>(rank) + size_ - root_) % size_; }
  int RankAt(uint32_t position) const { return static_cast<int>((position + root_) % size_); }
  // Of any but position 0.
  uint32_t ParentOf(uint32_t position) const { return position - LowestBit(position); }
  // The first position from `position` that is not below it.
  uint32_t EndOf(uint32_t position) const { return std::min(size_, position + LowestBit(position)); }
  // Those with the largest subtrees first.
  std::vector<uint32_t> ChildrenOf(uint32_t position) const {
    std::vector<uint32_t> children;
    for (uint32_t bit = LowestBit(position) / 2; bit != 0; bit /= 2) {
      if (position + bit < size_) children.push_back(position + bit);
    }
    return children;
  }

 private:
  uint32_t LowestBit(uint32_t position) const {
    return position == 0 ? std::bit_ceil(size_) : position & (~position + 1);
  }

  uint32_t size_;
  uint32_t root_;
};

}  // namespace tutti

#endif  // TUTTI_SRC_SCHEDULE_BINOMIAL_TREE_H_
