// Expressions over ranks, for symbolic execution: equal expressions are the same number.

#ifndef TUTTI_SRC_SCHEDULE_EXPRESSIONS_H_
#define TUTTI_SRC_SCHEDULE_EXPRESSIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace tutti {

// A value of one slice: an expression, and whether it was made final (divided and rounded).
class Value {
 public:
  Value() = default;  // nothing has been written
  Value(uint32_t expression, bool final) : bits_((expression + 1) << 1 | (final ? 1 : 0)) {}

  bool IsSet() const { return bits_ != 0; }
  uint32_t expression() const { return (bits_ >> 1) - 1; }
  bool final() const { return (bits_ & 1) != 0; }
  friend bool operator==(Value, Value) = default;

 private:
  uint32_t bits_ = 0;
};

class Expressions {
 public:
  explicit Expressions(uint32_t ranks) : ranks_(ranks) {}

  // What a rank brings along.
  uint32_t Leaf(uint32_t rank) const { return rank; }

  uint32_t Combine(uint32_t left, uint32_t right) {
    const uint32_t next = ranks_ + static_cast<uint32_t>(nodes_.size());
    const auto [it, added] = known_.try_emplace(uint64_t{left} << 32 | right, next);
    if (added) nodes_.push_back({left, right});
    return it->second;
  }

  // "((0 1) 2)", cut off when it gets long.
  std::string ToString(Value value) const;

 private:
  struct Node {
    uint32_t left;
    uint32_t right;
  };

  void Append(uint32_t expression, std::string& text) const;

  uint32_t ranks_;
  std::vector<Node> nodes_;
  absl::flat_hash_map<uint64_t, uint32_t> known_;
};

}  // namespace tutti

#endif  // TUTTI_SRC_SCHEDULE_EXPRESSIONS_H_
