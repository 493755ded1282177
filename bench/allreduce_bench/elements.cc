#include "bench/allreduce_bench/elements.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace tutti {
namespace {

// Inputs repeat with this period in the index, so only so many results need to be computed.
constexpr uint64_t kPeriod = 60;

double InputValue(ReduceOp op, int rank, uint64_t index) {
  // Products stay small: at most one rank in five contributes a 2.
  if (op == ReduceOp::kProduct) return (index + static_cast<uint64_t>(rank)) % 5 == 0 ? 2 : 1;
  return static_cast<double>((index + 3 * static_cast<uint64_t>(rank)) % 4);
}

double Reduced(ReduceOp op, int size, uint64_t index) {
  double result = InputValue(op, 0, index);
  for (int rank = 1; rank < size; ++rank) {
    const double x = InputValue(op, rank, index);
    if (op == ReduceOp::kProduct) {
      result *= x;
    } else if (op == ReduceOp::kMin) {
      result = std::min(result, x);
    } else if (op == ReduceOp::kMax) {
      result = std::max(result, x);
    } else {
      result += x;
    }
  }
  return op == ReduceOp::kAverage ? result / size : result;
}

// The value as an element; rounded to nearest even for floats, truncated and wrapped around for integers.
uint64_t Bits(DataType type, double value) {
  switch (type) {
    case DataType::kFloat32:
      return std::bit_cast<uint32_t>(static_cast<float>(value));
    case DataType::kFloat64:
      return std::bit_cast<uint64_t>(value);
    case DataType::kBFloat16: {
      const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
      return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    }
    case DataType::kFloat16: {
      if (value == 0) return 0;
      if (value > 65504) return 0x7c00;
      const int exponent = std::max(-14, std::ilogb(value));
      const auto mantissa = static_cast<uint64_t>(std::nearbyint(std::ldexp(value, 10 - exponent)));
      return (static_cast<uint64_t>(exponent + 14) << 10) + mantissa;  // a carry moves into the exponent by itself
    }
    default:
      return static_cast<uint64_t>(static_cast<int64_t>(value));
  }
}

uint64_t Load(const Tensor& data, uint64_t index) {
  uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const char*>(data.data()) + index * ByteSize(data.type()), ByteSize(data.type()));
  return bits;
}

void Store(const Tensor& data, uint64_t index, uint64_t bits) {
  std::memcpy(static_cast<char*>(data.data()) + index * ByteSize(data.type()), &bits, ByteSize(data.type()));
}

// `expected` repeats; an element may be off by `slack` in its bits.
WrongElements Compare(const Tensor& data, const uint64_t (&expected)[kPeriod], uint64_t slack) {
  const uint64_t mask = ByteSize(data.type()) == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * ByteSize(data.type()))) - 1;
  WrongElements wrong;
  for (uint64_t i = 0; i < data.count(); ++i) {
    const uint64_t bits = Load(data, i);
    const uint64_t right = expected[i % kPeriod] & mask;
    if (bits == right || (bits > right ? bits - right : right - bits) <= slack) continue;
    if (wrong.count++ == 0) wrong.first = i;
  }
  return wrong;
}

}  // namespace

void FillElements(Tensor data, ReduceOp op, int rank) {
  uint64_t elements[kPeriod];
  for (uint64_t i = 0; i < kPeriod; ++i) elements[i] = Bits(data.type(), InputValue(op, rank, i));
  for (uint64_t i = 0; i < data.count(); ++i) Store(data, i, elements[i % kPeriod]);
}

WrongElements CompareReduced(Tensor data, ReduceOp op, int size, uint64_t first) {
  uint64_t expected[kPeriod];
  for (uint64_t i = 0; i < kPeriod; ++i) expected[i] = Bits(data.type(), Reduced(op, size, first + i));
  return Compare(data, expected, op == ReduceOp::kAverage && IsFloatingPoint(data.type()) ? 1 : 0);
}

WrongElements CompareCopied(Tensor data, ReduceOp op, int rank, uint64_t first) {
  uint64_t expected[kPeriod];
  for (uint64_t i = 0; i < kPeriod; ++i) expected[i] = Bits(data.type(), InputValue(op, rank, first + i));
  return Compare(data, expected, /*slack=*/0);
}

void CorruptElement(Tensor data, uint64_t index) { Store(data, index, Load(data, index) ^ 0x40); }

}  // namespace tutti
