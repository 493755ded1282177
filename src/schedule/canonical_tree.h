// The one expression that every reduction over ranks evaluates.
//
// With n = 2^k + m leaves (0 <= m < 2^k) the first 2m leaves pair up, (0 1) (2 3) ... (2m-2 2m-1), which leaves 2^k
// operands; these are combined by a balanced binary tree over contiguous ranges, the lower rank always on the left:
//
//   n = 5 = 4 + 1:   (((0 1) 2) (3 4))
//   n = 6 = 4 + 2:   (((0 1) (2 3)) (4 5))
//
// So the result depends on n and the inputs alone: not on sizes, algorithms, arrival order or transports.

#ifndef TUTTI_SRC_SCHEDULE_CANONICAL_TREE_H_
#define TUTTI_SRC_SCHEDULE_CANONICAL_TREE_H_

#include <bit>
#include <cstdint>

namespace tutti {

// The largest power of two that is not above n >= 1.
constexpr uint32_t PowerOfTwoBelow(uint32_t n) { return std::bit_floor(n); }

// Evaluates the tree over n >= 1 leaves, from left to right: leaf(i) yields a value, combine(left, right) a value.
template <typename Leaf, typename Combine>
auto CanonicalTree(uint32_t n, const Leaf& leaf, const Combine& combine) {
  const uint32_t power = PowerOfTwoBelow(n);
  const uint32_t paired = n - power;
  // Operand j of the balanced tree.
  auto operand = [&](uint32_t j) -> decltype(leaf(0u)) {
    if (j >= paired) return leaf(j + paired);
    auto left = leaf(2 * j);
    return combine(left, leaf(2 * j + 1));
  };
  auto range = [&](auto&& self, uint32_t first, uint32_t count) -> decltype(leaf(0u)) {
    if (count == 1) return operand(first);
    auto left = self(self, first, count / 2);
    return combine(left, self(self, first + count / 2, count / 2));
  };
  return range(range, 0, power);
}

}  // namespace tutti

#endif  // TUTTI_SRC_SCHEDULE_CANONICAL_TREE_H_
