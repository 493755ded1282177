#include "tests/ddp/elements.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tutti::testing {
namespace {

// A 16-bit floating-point format.
struct Format {
  int mantissa_bits;
  int bias;
};
constexpr Format kHalf = {10, 15};
constexpr Format kBrain = {7, 127};

double Decode(const Format& format, uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  const int exponent = (bits & 0x7fff) >> format.mantissa_bits;
  const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
  if (exponent == 2 * format.bias + 1) return mantissa != 0 ? NAN : sign * INFINITY;
  const int implicit = exponent > 0 ? 1 << format.mantissa_bits : 0;
  return sign * std::ldexp(implicit + mantissa, std::max(exponent, 1) - format.bias - format.mantissa_bits);
}

uint16_t Encode(const Format& format, double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const int top = (2 * format.bias + 1) << format.mantissa_bits;  // infinity
  if (std::isnan(value)) return static_cast<uint16_t>(sign | top | 1);
  if (value == 0) return sign;
  if (std::isinf(value)) return static_cast<uint16_t>(sign | top);
  const int exponent = std::max(std::ilogb(value), 1 - format.bias);
  // In units of the last place; a carry out of the mantissa runs into the exponent, as it must.
  const double units = std::nearbyint(std::ldexp(std::fabs(value), format.mantissa_bits - exponent));
  const double bits = units + std::ldexp(exponent + format.bias - 1, format.mantissa_bits);
  return static_cast<uint16_t>(sign | std::min(static_cast<int>(std::min(bits, 65536.0)), top));
}

template <typename T>
T Read(const void* data, size_t index) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(data) + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void Write(void* data, size_t index, T value) {
  std::memcpy(static_cast<std::byte*>(data) + index * sizeof(T), &value, sizeof(T));
}

}  // namespace

double Load(DataType type, const void* data, size_t index) {
  if (type == DataType::kFloat16) return Decode(kHalf, Read<uint16_t>(data, index));
  if (type == DataType::kBFloat16) return Decode(kBrain, Read<uint16_t>(data, index));
  if (type == DataType::kFloat32) return Read<float>(data, index);
  return Read<double>(data, index);
}

void Store(DataType type, void* data, size_t index, double value) {
  if (type == DataType::kFloat16) return Write(data, index, Encode(kHalf, value));
  if (type == DataType::kBFloat16) return Write(data, index, Encode(kBrain, value));
  if (type == DataType::kFloat32) return Write(data, index, static_cast<float>(value));
  Write(data, index, value);
}

void AddTo(const Tensor& tensor, double value) {
  for (size_t i = 0; i < tensor.count(); ++i) {
    Store(tensor.type(), tensor.data(), i, Load(tensor.type(), tensor.data(), i) + value);
  }
}

std::vector<double> Values(const ConstTensor& tensor) {
  std::vector<double> values(tensor.count());
  for (size_t i = 0; i < values.size(); ++i) values[i] = Load(tensor.type(), tensor.data(), i);
  return values;
}

std::vector<uint8_t> Bytes(const ConstTensor& tensor) {
  std::vector<uint8_t> bytes(tensor.bytes());
  if (!bytes.empty()) std::memcpy(bytes.data(), tensor.data(), bytes.size());
  return bytes;
}

}  // namespace tutti::testing
