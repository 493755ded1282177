// Reduction kernels: element-wise reduction of n inputs in one pass, with run-time choice of the instruction set.
//
// Every kernel evaluates the canonical tree (schedule/canonical_tree.h) per element, so the bits do not depend on the
// instruction set, on alignment, or on how a range is cut. 16-bit floats are evaluated in fp32 and rounded once, to
// nearest even; integer averages in 64 bits. NaN propagates through min and max; of -0 and +0, min takes -0, max +0.
//
// Pure functions, safe to call from any thread. No allocation.

#ifndef TUTTI_SRC_REDUCE_REDUCE_H_
#define TUTTI_SRC_REDUCE_REDUCE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tutti/data_type.h"

namespace tutti {

// The type in which partial results of an operator are kept: fp32 for 16-bit floats, 64 bits for averages of integers,
// otherwise the element type itself.
DataType AccumulatorType(DataType type, ReduceOp op);

// OK if the operator is defined for the type and the divisor is one it can use; the error says which and why. Also
// refuses values outside the enumerations, by number.
absl::Status CheckReduction(DataType type, ReduceOp op, double divisor);

// dst[i] = tree over s of sources[s][i], for i < count. `dst` may be one of the sources (the same pointer), not overlap
// one otherwise. Any alignment, 1 <= source_count. The divisor is applied last; 1 costs nothing, and a power of two is
// multiplied by its exact inverse.
using ReduceFunction = void (*)(void* dst, const void* const* sources, size_t source_count, size_t count,
                                double divisor);

// dst[i] = convert(src[i] / divisor).
using ConvertFunction = void (*)(void* dst, const void* src, size_t count, double divisor);

// The kernels of one (type, operator), resolved once per operation. In a reduction over ranks in several stages:
// widen, then reduce_partial any number of times, then narrow; or reduce alone, if all inputs are at hand.
struct ReduceKernels {
  ReduceFunction reduce = nullptr;          // element type -> element type
  ReduceFunction reduce_partial = nullptr;  // accumulator type -> accumulator type
  ConvertFunction widen = nullptr;          // element type -> accumulator type
  ConvertFunction narrow = nullptr;         // accumulator type -> element type
};

// For a pair that CheckReduction accepts. kAverage differs from kSum in the accumulator of integers only: the caller
// passes n as (part of) the divisor.
ReduceKernels KernelsFor(DataType type, ReduceOp op);

enum class InstructionSet : uint8_t { kBaseline, kAvx2, kAvx512 };
absl::string_view Name(InstructionSet set);
// What KernelsFor uses: the best that this processor and operating system support.
InstructionSet ChosenInstructionSet();
// For tests: the kernels of one instruction set, kUnavailable if this machine lacks it.
absl::StatusOr<ReduceKernels> KernelsFor(DataType type, ReduceOp op, InstructionSet set);

}  // namespace tutti

#endif  // TUTTI_SRC_REDUCE_REDUCE_H_
