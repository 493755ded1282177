#include "tests/support/numbers.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

namespace tutti {
namespace {

// A bit pattern of a finite 16-bit float near 1: sign, an exponent around the bias, any mantissa.
uint16_t RandomHalf(uint64_t random, int mantissa_bits, int exponent_bias) {
  const auto sign = static_cast<uint16_t>(random & 1);
  const auto exponent = static_cast<uint16_t>(exponent_bias - 3 + static_cast<int>((random >> 1) % 6));
  const auto mantissa = static_cast<uint16_t>((random >> 8) & ((1u << mantissa_bits) - 1));
  return static_cast<uint16_t>(sign << 15 | exponent << mantissa_bits | mantissa);
}

template <typename T>
void Store(unsigned char* at, T value) {
  std::memcpy(at, &value, sizeof(value));
}

template <typename T>
T Load(const unsigned char* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

double Float(int mantissa_bits, int exponent_bits, uint16_t bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = (bits >> 15) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return mantissa != 0 ? std::nan("") : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

}  // namespace

double ValueOfFloat16(uint16_t bits) { return Float(10, 5, bits); }
double ValueOfBFloat16(uint16_t bits) { return Float(7, 8, bits); }

double UnitInLastPlace(DataType type, double value) {
  const auto [digits, smallest_exponent] = [&]() -> std::pair<int, int> {
    switch (type) {
      case DataType::kFloat16:
        return {11, -14};
      case DataType::kBFloat16:
        return {8, -126};
      case DataType::kFloat32:
        return {24, -126};
      default:
        return {53, -1022};
    }
  }();
  const int exponent = value == 0 ? smallest_exponent : std::max(smallest_exponent, std::ilogb(value));
  return std::ldexp(1.0, exponent - digits + 1);
}

Numbers Numbers::Random(DataType type, size_t count, uint64_t seed) {
  Numbers numbers(type, count);
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  for (size_t i = 0; i < count; ++i) {
    unsigned char* at = numbers.bytes_.data() + i * ByteSize(type);
    switch (type) {
      case DataType::kFloat16:
        Store(at, RandomHalf(random(), 10, 15));
        break;
      case DataType::kBFloat16:
        Store(at, RandomHalf(random(), 7, 127));
        break;
      case DataType::kFloat32:
        Store(at, static_cast<float>(normal(random)));
        break;
      case DataType::kFloat64:
        Store(at, normal(random));
        break;
      case DataType::kBool:
        Store(at, static_cast<uint8_t>(random() & 1));
        break;
      default: {
        const uint64_t bits = random();
        std::memcpy(at, &bits, ByteSize(type));
      }
    }
  }
  return numbers;
}

Numbers Numbers::Constant(DataType type, size_t count, double value) {
  Numbers numbers(type, count);
  uint16_t half = 0;  // found by trying all: slow, and needs no conversion
  if (type == DataType::kFloat16) {
    while (ValueOfFloat16(half) != value) ++half;
  }
  for (size_t i = 0; i < count; ++i) {
    unsigned char* at = numbers.bytes_.data() + i * ByteSize(type);
    switch (type) {
      case DataType::kFloat16:
        Store(at, half);
        break;
      case DataType::kBFloat16:
        Store(at, static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16));
        break;
      case DataType::kFloat32:
        Store(at, static_cast<float>(value));
        break;
      case DataType::kFloat64:
        Store(at, value);
        break;
      default: {
        const auto whole = static_cast<int64_t>(value);
        std::memcpy(at, &whole, ByteSize(type));
      }
    }
  }
  return numbers;
}

double Numbers::Value(size_t index) const {
  const unsigned char* at = bytes_.data() + index * ByteSize(type_);
  switch (type_) {
    case DataType::kInt8:
      return Load<int8_t>(at);
    case DataType::kUInt8:
    case DataType::kBool:
      return Load<uint8_t>(at);
    case DataType::kInt16:
      return Load<int16_t>(at);
    case DataType::kUInt16:
      return Load<uint16_t>(at);
    case DataType::kInt32:
      return Load<int32_t>(at);
    case DataType::kUInt32:
      return Load<uint32_t>(at);
    case DataType::kInt64:
      return static_cast<double>(Load<int64_t>(at));
    case DataType::kUInt64:
      return static_cast<double>(Load<uint64_t>(at));
    case DataType::kFloat16:
      return ValueOfFloat16(Load<uint16_t>(at));
    case DataType::kBFloat16:
      return ValueOfBFloat16(Load<uint16_t>(at));
    case DataType::kFloat32:
      return Load<float>(at);
    case DataType::kFloat64:
      return Load<double>(at);
  }
  return 0;
}

}  // namespace tutti
