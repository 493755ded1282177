#include "tests/reduce/oracle.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "src/schedule/canonical_tree.h"

namespace tutti::oracle {
namespace {

using Whole = __int128;

// Rounded once: a sum, product or quotient of floats in double is close enough to the true one for that.
float Add(float a, float b) { return static_cast<float>(static_cast<double>(a) + b); }
float Multiply(float a, float b) { return static_cast<float>(static_cast<double>(a) * b); }
float Divide(float a, float b) { return static_cast<float>(static_cast<double>(a) / b); }
double Add(double a, double b) { return a + b; }
double Multiply(double a, double b) { return a * b; }
double Divide(double a, double b) { return a / b; }

template <typename Real>
Real Minimum(Real a, Real b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<Real>::quiet_NaN();
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

template <typename Real>
Real CombineReal(ReduceOp op, Real a, Real b) {
  switch (op) {
    case ReduceOp::kProduct:
      return Multiply(a, b);
    case ReduceOp::kMin:
      return Minimum(a, b);
    case ReduceOp::kMax:
      return -Minimum(-a, -b);
    default:
      return Add(a, b);
  }
}

// The value that is congruent to `value` and that the type can hold.
Whole Wrap(Whole value, int bits, bool is_signed) {
  const Whole modulus = Whole{1} << bits;
  Whole wrapped = value % modulus;
  if (wrapped < 0) wrapped += modulus;
  return is_signed && wrapped >= modulus / 2 ? wrapped - modulus : wrapped;
}

Whole CombineWhole(ReduceOp op, Whole a, Whole b) {
  switch (op) {
    case ReduceOp::kProduct:
      return static_cast<Whole>(static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b));
    case ReduceOp::kMin:
      return a < b ? a : b;
    case ReduceOp::kMax:
      return a > b ? a : b;
    case ReduceOp::kBitAnd:
      return a & b;
    case ReduceOp::kBitOr:
      return a | b;
    case ReduceOp::kBitXor:
      return a ^ b;
    default:
      return a + b;
  }
}

bool CombineBool(ReduceOp op, bool a, bool b) {
  switch (op) {
    case ReduceOp::kProduct:
    case ReduceOp::kMin:
    case ReduceOp::kBitAnd:
      return a && b;
    case ReduceOp::kBitXor:
      return a != b;
    default:
      return a || b;
  }
}

template <typename Stored>
Stored ElementAt(const Bytes& bytes, size_t index) {
  Stored element;
  std::memcpy(&element, bytes.data() + index * sizeof(Stored), sizeof(Stored));
  return element;
}

template <typename Stored, typename Element>
Bytes ForEachElement(const std::vector<Bytes>& inputs, const Element& element) {
  Bytes result(inputs[0].size());
  for (size_t i = 0; i < result.size() / sizeof(Stored); ++i) {
    const Stored value = element([&](uint32_t source) { return ElementAt<Stored>(inputs[source], i); });
    std::memcpy(result.data() + i * sizeof(Stored), &value, sizeof(Stored));
  }
  return result;
}

template <typename T>
Bytes ReduceIntegers(ReduceOp op, const std::vector<Bytes>& inputs, double divisor) {
  const int bits = op == ReduceOp::kAverage ? 64 : 8 * static_cast<int>(sizeof(T));
  const bool is_signed = std::is_signed_v<T>;
  return ForEachElement<T>(inputs, [&](const auto& input) {
    const Whole total = CanonicalTree(
        static_cast<uint32_t>(inputs.size()), [&](uint32_t s) -> Whole { return input(s); },
        [&](Whole a, Whole b) { return Wrap(CombineWhole(op, a, b), bits, is_signed); });
    return static_cast<T>(Wrap(total / static_cast<Whole>(divisor), 8 * sizeof(T), is_signed));
  });
}

template <typename Stored, typename Real, typename Read, typename Write>
Bytes ReduceReals(ReduceOp op, const std::vector<Bytes>& inputs, double divisor, const Read& read, const Write& write) {
  if (inputs.size() == 1 && divisor == 1) return inputs[0];  // payloads of NaNs included
  return ForEachElement<Stored>(inputs, [&](const auto& input) {
    const Real total = CanonicalTree(
        static_cast<uint32_t>(inputs.size()), [&](uint32_t s) -> Real { return read(input(s)); },
        [&](Real a, Real b) { return CombineReal(op, a, b); });
    const Real quotient = divisor == 1 ? total : Divide(total, static_cast<Real>(divisor));
    return write(quotient);
  });
}

template <typename Real>
Bytes ReduceNative(ReduceOp op, const std::vector<Bytes>& inputs, double divisor) {
  return ReduceReals<Real, Real>(
      op, inputs, divisor, [](Real x) { return x; },
      [](Real x) { return std::isnan(x) ? std::numeric_limits<Real>::quiet_NaN() : x; });
}

Bytes ReduceHalves(ReduceOp op, const std::vector<Bytes>& inputs, double divisor, HalfFormat format) {
  return ReduceReals<uint16_t, float>(
      op, inputs, divisor, [&](uint16_t x) { return Decode(x, format); }, [&](float x) { return Encode(x, format); });
}

Bytes ReduceBools(ReduceOp op, const std::vector<Bytes>& inputs) {
  return ForEachElement<uint8_t>(inputs, [&](const auto& input) -> uint8_t {
    return CanonicalTree(
        static_cast<uint32_t>(inputs.size()), [&](uint32_t s) -> bool { return input(s) != 0; },
        [&](bool a, bool b) { return CombineBool(op, a, b); });
  });
}

// Bit patterns of interest, in the low bits.
std::vector<uint64_t> SpecialBits(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return {0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x0400, 0x3c00, 0xbc00,
              0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0xfe01, 0x7c01, 0x7fff};
    case DataType::kBFloat16:
      return {0x0000, 0x8000, 0x0001, 0x8001, 0x007f, 0x0080, 0x3f80, 0xbf80,
              0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0, 0xffc1, 0x7f81, 0x7fff};
    case DataType::kFloat32:
      return {0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x00800000, 0x3f800000, 0xbf800000,
              0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001, 0x7f800001, 0x7fffffff};
    case DataType::kFloat64:
      return {0x0000000000000000, 0x8000000000000000, 0x0000000000000001, 0x8000000000000001,
              0x000fffffffffffff, 0x0010000000000000, 0x3ff0000000000000, 0xbff0000000000000,
              0x7fefffffffffffff, 0xffefffffffffffff, 0x7ff0000000000000, 0xfff0000000000000,
              0x7ff8000000000000, 0xfff8000000000001, 0x7ff0000000000001, 0x7fffffffffffffff};
    case DataType::kBool:
      return {0, 1, 2, 0x80, 0xff};
    default: {
      const int bits = 8 * static_cast<int>(ByteSize(type));
      const uint64_t top = uint64_t{1} << (bits - 1);
      return {0, 1, ~uint64_t{0}, top, top - 1, 2, 3};
    }
  }
}

// A number of a size at which sums neither overflow nor vanish.
uint64_t ModerateBits(DataType type, std::mt19937_64& random) {
  const float value = std::ldexp(static_cast<float>(static_cast<int64_t>(random())), -60);
  switch (type) {
    case DataType::kFloat16:
      return Encode(value, kFloat16);
    case DataType::kBFloat16:
      return Encode(value, kBFloat16);
    case DataType::kFloat32:
      return std::bit_cast<uint32_t>(value);
    case DataType::kFloat64:
      return std::bit_cast<uint64_t>(std::ldexp(static_cast<double>(static_cast<int64_t>(random())), -60));
    case DataType::kBool:
      return random() % 2;
    default:
      return random() % 100;
  }
}

}  // namespace

float Decode(uint16_t bits, HalfFormat format) {
  const int exponent_bits = 15 - format.fraction_bits;
  const int fraction = bits & ((1 << format.fraction_bits) - 1);
  const int exponent = (bits >> format.fraction_bits) & ((1 << exponent_bits) - 1);
  const float sign = bits >> 15 ? -1.0f : 1.0f;
  const int unit = format.smallest_exponent - format.fraction_bits;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction != 0 ? std::numeric_limits<float>::quiet_NaN() : sign * std::numeric_limits<float>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), unit);
  return sign * std::ldexp(static_cast<float>(fraction + (1 << format.fraction_bits)), unit + exponent - 1);
}

uint16_t Encode(float value, HalfFormat format) {
  const int exponent_bits = 15 - format.fraction_bits;
  const uint16_t infinity = static_cast<uint16_t>(((1 << exponent_bits) - 1) << format.fraction_bits);
  if (std::isnan(value)) return static_cast<uint16_t>(infinity | 1 << (format.fraction_bits - 1));
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (value == 0) return sign;
  if (std::isinf(value)) return sign | infinity;

  // The distance of neighbours in the format, at this size; nearbyint rounds to nearest even.
  const int exponent = std::max(std::ilogb(value), format.smallest_exponent);
  const int unit = exponent - format.fraction_bits;
  const double units = std::nearbyint(std::ldexp(std::abs(static_cast<double>(value)), -unit));
  // Encodings of one sign are in the order of their values: denormals, then 2^fraction_bits for each exponent. A
  // rounding that reaches the next power of two, or infinity, carries into the exponent.
  const int below = (exponent - format.smallest_exponent) << format.fraction_bits;
  return static_cast<uint16_t>(sign | std::min<int>(below + static_cast<int>(units), infinity));
}

Bytes Reduce(DataType type, ReduceOp op, const std::vector<Bytes>& inputs, double divisor) {
  switch (type) {
    case DataType::kInt8:
      return ReduceIntegers<int8_t>(op, inputs, divisor);
    case DataType::kUInt8:
      return ReduceIntegers<uint8_t>(op, inputs, divisor);
    case DataType::kInt16:
      return ReduceIntegers<int16_t>(op, inputs, divisor);
    case DataType::kUInt16:
      return ReduceIntegers<uint16_t>(op, inputs, divisor);
    case DataType::kInt32:
      return ReduceIntegers<int32_t>(op, inputs, divisor);
    case DataType::kUInt32:
      return ReduceIntegers<uint32_t>(op, inputs, divisor);
    case DataType::kInt64:
      return ReduceIntegers<int64_t>(op, inputs, divisor);
    case DataType::kUInt64:
      return ReduceIntegers<uint64_t>(op, inputs, divisor);
    case DataType::kFloat16:
      return ReduceHalves(op, inputs, divisor, kFloat16);
    case DataType::kBFloat16:
      return ReduceHalves(op, inputs, divisor, kBFloat16);
    case DataType::kFloat32:
      return ReduceNative<float>(op, inputs, divisor);
    case DataType::kFloat64:
      return ReduceNative<double>(op, inputs, divisor);
    case DataType::kBool:
      return ReduceBools(op, inputs);
  }
  return {};
}

Bytes RandomElements(DataType type, size_t count, std::mt19937_64& random) {
  const std::vector<uint64_t> specials = SpecialBits(type);
  const size_t size = ByteSize(type);
  Bytes bytes(count * size);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t kind = random() % 16;
    uint64_t bits = ModerateBits(type, random);
    if (kind < 2) bits = specials[random() % specials.size()];
    if (kind >= 2 && kind < 5) bits = random();
    std::memcpy(bytes.data() + i * size, &bits, size);  // little-endian
  }
  return bytes;
}

}  // namespace tutti::oracle
