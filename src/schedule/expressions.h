// Expressions over ranks, for symbolic execution: equal expressions are equal numbers.

#ifndef TUTTI_SRC_SCHEDULE_EXPRESSIONS_H_
#define TUTTI_SRC_SCHEDULE_EXPRESSIONS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace tutti {

// A shape, and the rank with which it begins. The shape says how far after that one (mod n) the others are: so
// ((0 1) 2) and ((4 5) 6) have the same, and there are few of them.
struct Expression {
  uint32_t shape = 0;  // 0: the rank alone
  uint32_t first = 0;
  friend bool operator==(const Expression&, const Expression&) = default;
};

// A value of one slice: an expression, and whether it was made final (divided and rounded).
class Value {
 public:
  Value() = default;  // nothing has been written
  Value(const Expression& expression, bool final)
      : bits_((expression.shape + 1) << 1 | (final ? 1 : 0)), first_(expression.first) {}

  bool IsSet() const { return bits_ != 0; }
  Expression expression() const { return {(bits_ >> 1) - 1, first_}; }
  bool final() const { return (bits_ & 1) != 0; }
  friend bool operator==(const Value&, const Value&) = default;

 private:
  uint32_t bits_ = 0;
  uint32_t first_ = 0;
};

class Expressions {
 public:
  explicit Expressions(uint32_t ranks) : ranks_(ranks) {}

  // What a rank brings along.
  static Expression Leaf(uint32_t rank) { return {.first = rank}; }

  Expression Combine(const Expression& left, const Expression& right) {
    const uint32_t distance = right.first >= left.first ? right.first - left.first : right.first + ranks_ - left.first;
    const uint32_t next = static_cast<uint32_t>(shapes_.size()) + 1;
    const auto [it, added] = known_.try_emplace({uint64_t{left.shape} << 32 | right.shape, distance}, next);
    if (added) shapes_.push_back({left.shape, right.shape, distance});
    return {it->second, left.first};
  }

  // The same with each rank r replaced by r + distance (mod n); 0 <= distance < n.
  Expression Rotate(Expression expression, uint32_t distance) const {
    expression.first += distance;
    if (expression.first >= ranks_) expression.first -= ranks_;
    return expression;
  }

  Value Rotate(const Value& value, uint32_t distance) const {
    return value.IsSet() ? Value(Rotate(value.expression(), distance), value.final()) : value;
  }

  // "((0 1) 2)", cut off when it gets long.
  std::string ToString(const Value& value) const;

 private:
  struct Shape {
    uint32_t left;
    uint32_t right;
    uint32_t distance;  // from the first rank of the left one to that of the right one
  };

  void Append(const Expression& expression, std::string& text) const;

  uint32_t ranks_;
  std::vector<Shape> shapes_;  // shape s at s - 1
  absl::flat_hash_map<std::pair<uint64_t, uint32_t>, uint32_t> known_;
};

}  // namespace tutti

#endif  // TUTTI_SRC_SCHEDULE_EXPRESSIONS_H_
