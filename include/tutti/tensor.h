// Tensor: where the elements of one operand of a collective lie.
//
// A Tensor owns nothing and is as cheap to copy as a pointer. The memory it names must stay valid, and must not be
// touched by the caller, until the Work that uses it is done. Not synchronised: copy it instead of sharing it.

#ifndef TUTTI_TENSOR_H_
#define TUTTI_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tutti/data_type.h"

namespace tutti {

struct Device {
  enum class Type : uint8_t { kCpu, kCuda };
  Type type = Type::kCpu;
  int index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

// 16-bit floating-point elements as they lie in memory. Arithmetic is left to the caller's own type, which may be
// reinterpreted as these.
struct Float16 {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

// The DataType of a C++ element type.
template <typename T>
constexpr DataType DataTypeOf() {
  if constexpr (std::is_same_v<T, bool>) return DataType::kBool;
  if constexpr (std::is_same_v<T, Float16>) return DataType::kFloat16;
  if constexpr (std::is_same_v<T, BFloat16>) return DataType::kBFloat16;
  if constexpr (std::is_same_v<T, float>) return DataType::kFloat32;
  if constexpr (std::is_same_v<T, double>) return DataType::kFloat64;
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    constexpr bool is_signed = std::is_signed_v<T>;
    if constexpr (sizeof(T) == 1) return is_signed ? DataType::kInt8 : DataType::kUInt8;
    if constexpr (sizeof(T) == 2) return is_signed ? DataType::kInt16 : DataType::kUInt16;
    if constexpr (sizeof(T) == 4) return is_signed ? DataType::kInt32 : DataType::kUInt32;
    if constexpr (sizeof(T) == 8) return is_signed ? DataType::kInt64 : DataType::kUInt64;
  }
}

template <typename T>
concept Element = std::is_integral_v<T> || std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16> ||
    std::is_same_v<T, float> || std::is_same_v<T, double>;

// Elements that an operation only reads.
class ConstTensor {
 public:
  ConstTensor() = default;
  ConstTensor(const void* data, size_t count, DataType type, Device device = {})
      : data_(data), count_(count), type_(type), device_(device) {}
  template <Element T>
  ConstTensor(absl::Span<const T> values)  // NOLINT(google-explicit-constructor)
      : ConstTensor(values.data(), values.size(), DataTypeOf<T>()) {}

  const void* data() const { return data_; }
  size_t count() const { return count_; }
  size_t bytes() const { return count_ * ByteSize(type_); }
  DataType type() const { return type_; }
  Device device() const { return device_; }

 private:
  const void* data_ = nullptr;
  size_t count_ = 0;
  DataType type_ = DataType::kFloat32;
  Device device_;
};

// Elements that an operation writes, or reads and writes.
//
// Always contiguous. A strided view is refused by FromStrided instead of being taken for contiguous memory:
//
//   float matrix[2][2];
//   Tensor rows(&matrix[0][0], 4, DataType::kFloat32);        // right: the whole matrix
//   Tensor column(&matrix[0][0], 2, DataType::kFloat32);      // wrong: this is the first row
//   Tensor::FromStrided(&matrix[0][0], {2}, {2}, ...)         // error that names shape and strides
class Tensor {
 public:
  Tensor() = default;
  Tensor(void* data, size_t count, DataType type, Device device = {})
      : data_(data), count_(count), type_(type), device_(device) {}
  template <Element T>
  Tensor(absl::Span<T> values)  // NOLINT(google-explicit-constructor)
      : Tensor(values.data(), values.size(), DataTypeOf<T>()) {}

  // A view given by shape and strides, both in elements. InvalidArgument unless the elements are dense in row-major
  // order (strides of dimensions of size 1, and of tensors without elements, do not matter).
  static absl::StatusOr<Tensor> FromStrided(void* data, absl::Span<const int64_t> shape,
                                            absl::Span<const int64_t> strides, DataType type, Device device = {});

  void* data() const { return data_; }
  size_t count() const { return count_; }
  size_t bytes() const { return count_ * ByteSize(type_); }
  DataType type() const { return type_; }
  Device device() const { return device_; }

  // The elements as T; T must be the element type. Empty if it is not.
  template <Element T>
  absl::Span<T> as() const {
    return type_ == DataTypeOf<T>() ? absl::Span<T>(static_cast<T*>(data_), count_) : absl::Span<T>();
  }

  operator ConstTensor() const { return {data_, count_, type_, device_}; }  // NOLINT(google-explicit-constructor)

 private:
  void* data_ = nullptr;
  size_t count_ = 0;
  DataType type_ = DataType::kFloat32;
  Device device_;
};

}  // namespace tutti

#endif  // TUTTI_TENSOR_H_
