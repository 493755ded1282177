// What a reduction must yield, computed one element at a time by code that shares nothing with the kernels: whole
// numbers in 128 bits, 16-bit floats by powers of two, the tree from its definition.

#ifndef TUTTI_TESTS_REDUCE_ORACLE_H_
#define TUTTI_TESTS_REDUCE_ORACLE_H_

#include <cstdint>
#include <random>
#include <vector>

#include "tutti/data_type.h"

namespace tutti::oracle {

using Bytes = std::vector<uint8_t>;

// A binary floating-point format of 16 bits.
struct HalfFormat {
  int fraction_bits;
  int smallest_exponent;  // of normal numbers
};
inline constexpr HalfFormat kFloat16 = {.fraction_bits = 10, .smallest_exponent = -14};
inline constexpr HalfFormat kBFloat16 = {.fraction_bits = 7, .smallest_exponent = -126};

float Decode(uint16_t bits, HalfFormat format);
// Rounds to nearest even. Every NaN is the quiet one without sign and payload.
uint16_t Encode(float value, HalfFormat format);

// The elements that reduce(inputs) must write.
Bytes Reduce(DataType type, ReduceOp op, const std::vector<Bytes>& inputs, double divisor);

// Elements among which extremes, NaNs, infinities, zeros of both signs and denormals are frequent.
Bytes RandomElements(DataType type, size_t count, std::mt19937_64& random);

}  // namespace tutti::oracle

#endif  // TUTTI_TESTS_REDUCE_ORACLE_H_
