// Elements of any floating-point type as doubles: slow, and written without the library's conversions.

#ifndef TUTTI_TESTS_DDP_ELEMENTS_H_
#define TUTTI_TESTS_DDP_ELEMENTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tutti/tensor.h"

namespace tutti::testing {

double Load(DataType type, const void* data, size_t index);
// Rounds to nearest even.
void Store(DataType type, void* data, size_t index, double value);

// tensor[i] += value, rounded once.
void AddTo(const Tensor& tensor, double value);
std::vector<double> Values(const ConstTensor& tensor);
// The bytes as they lie in memory.
std::vector<uint8_t> Bytes(const ConstTensor& tensor);

}  // namespace tutti::testing

#endif  // TUTTI_TESTS_DDP_ELEMENTS_H_
