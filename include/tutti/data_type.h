// Element types and reduction operators.
//
// Plain values: safe to use from any thread.

#ifndef TUTTI_DATA_TYPE_H_
#define TUTTI_DATA_TYPE_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace tutti {

enum class DataType : uint8_t {
  kInt8,
  kUInt8,
  kInt16,
  kUInt16,
  kInt32,
  kUInt32,
  kInt64,
  kUInt64,
  kFloat16,   // IEEE binary16
  kBFloat16,  // upper half of an IEEE binary32
  kFloat32,
  kFloat64,
  kBool,  // one byte; any value but 0 is true, results are 0 or 1
};
inline constexpr int kDataTypeCount = 13;

// What a reduction computes from the elements x[0]..x[n-1] of the n ranks.
//
// Floating-point sums and products follow one fixed tree over the ranks, so the result has the same bits on every rank
// and for every message size, algorithm and transport. 16-bit floats are evaluated in fp32 and rounded once, to nearest
// even. Integers wrap around; kAverage of integers is summed in 64 bits and truncated toward zero. kMin and kMax return
// NaN if any input is NaN. For kBool, kSum and kMax mean "any", kProduct and kMin mean "all"; kAverage is refused. The
// bit operators take integers and kBool.
enum class ReduceOp : uint8_t {
  kSum,      // x[0] + ... + x[n-1]
  kAverage,  // (x[0] + ... + x[n-1]) / n
  kProduct,  // x[0] * ... * x[n-1]
  kMin,
  kMax,
  kBitAnd,
  kBitOr,
  kBitXor,
};
inline constexpr int kReduceOpCount = 8;

// Bytes of one element.
size_t ByteSize(DataType type);

// "float32", "bfloat16", ...; "unknown" outside the enumeration.
absl::string_view Name(DataType type);
// "sum", "average", ...; "unknown" outside the enumeration.
absl::string_view Name(ReduceOp op);

bool IsFloatingPoint(DataType type);

}  // namespace tutti

#endif  // TUTTI_DATA_TYPE_H_
