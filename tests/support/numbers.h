// Numbers for tests of reductions: random elements of any type, and their exact values.

#ifndef TUTTI_TESTS_SUPPORT_NUMBERS_H_
#define TUTTI_TESTS_SUPPORT_NUMBERS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tutti/data_type.h"
#include "tutti/tensor.h"

namespace tutti {

// Elements of one type, as bytes.
class Numbers {
 public:
  Numbers(DataType type, size_t count) : type_(type), count_(count), bytes_(count * ByteSize(type)) {}

  // Random: floats with magnitudes over a few powers of two and both signs, integers and bool over all values.
  static Numbers Random(DataType type, size_t count, uint64_t seed);
  // All equal to `value`, which the type must hold.
  static Numbers Constant(DataType type, size_t count, double value);

  DataType type() const { return type_; }
  size_t count() const { return count_; }
  Tensor tensor() { return {bytes_.data(), count_, type_}; }
  ConstTensor tensor() const { return {bytes_.data(), count_, type_}; }
  // Elements [first, first + count).
  Tensor part(size_t first, size_t count) { return {bytes_.data() + first * ByteSize(type_), count, type_}; }
  ConstTensor part(size_t first, size_t count) const { return {bytes_.data() + first * ByteSize(type_), count, type_}; }

  // The value of one element; exact but for integers above 2^53.
  double Value(size_t index) const;
  friend bool operator==(const Numbers&, const Numbers&) = default;

 private:
  DataType type_;
  size_t count_;
  std::vector<unsigned char> bytes_;
};

// Slow and obvious, independent of the library's kernels.
double ValueOfFloat16(uint16_t bits);
double ValueOfBFloat16(uint16_t bits);
// Distance from the value to the next larger magnitude of the type.
double UnitInLastPlace(DataType type, double value);

}  // namespace tutti

#endif  // TUTTI_TESTS_SUPPORT_NUMBERS_H_
