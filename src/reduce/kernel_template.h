// The kernels of one instruction set: included by one translation unit for each, which names it in
// TUTTI_INSTRUCTION_SET and is compiled with its flags. What lanes.h says about inline functions holds here too.
//
// A kernel is given by five types: In and Out are the formats of the elements read and written, Acc is the type of the
// lanes between them, Op combines two vectors of lanes, Scale divides the result.

#ifndef TUTTI_SRC_REDUCE_KERNEL_TEMPLATE_H_
#define TUTTI_SRC_REDUCE_KERNEL_TEMPLATE_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "src/reduce/kernels.h"
#include "src/reduce/lanes.h"
#include "src/reduce/loops.h"
#include "src/reduce/reduce.h"
#include "tutti/data_type.h"

namespace tutti::TUTTI_INSTRUCTION_SET {

// The tree over kCount leaves, a power of two, in registers.
template <typename Op, typename Acc, size_t kFirst, size_t kCount, typename Leaf>
Lanes<Acc> Balanced(const Leaf& leaf) {
  if constexpr (kCount == 1) {
    return leaf(kFirst);
  } else {
    const Lanes<Acc> left = Balanced<Op, Acc, kFirst, kCount / 2>(leaf);
    return Op::template Combine<Acc>(left, Balanced<Op, Acc, kFirst + kCount / 2, kCount / 2>(leaf));
  }
}

template <typename Op, typename Acc, size_t kCount, typename Leaf>
Lanes<Acc> Tree(const Leaf& leaf) {
  if constexpr (kCount == 3) {
    return Op::template Combine<Acc>(Balanced<Op, Acc, 0, 2>(leaf), leaf(2));
  } else {
    return Balanced<Op, Acc, 0, kCount>(leaf);
  }
}

// A Loop.
template <typename In, typename Acc, typename Out, typename Op, size_t kSources, typename Scale>
void ReduceVectors(char* dst, const char* const* sources, size_t vectors, double divisor) {
  // Copies that a write to dst cannot change, as far as the compiler knows.
  const char* from[kSources];
  for (size_t s = 0; s < kSources; ++s) from[s] = sources[s];
  const Scale scale(divisor);
  for (size_t i = 0; i < vectors; ++i) {
    const Lanes<Acc> total = Tree<Op, Acc, kSources>([&](size_t s) {
      Elements<In, Acc> elements;
      __builtin_memcpy(&elements, from[s] + i * sizeof(elements), sizeof(elements));
      return Decode<In, Acc>(elements);
    });
    const Elements<Out, Acc> result = Encode<Out, Acc>(scale.template Apply<Acc>(total));
    __builtin_memcpy(dst + i * sizeof(result), &result, sizeof(result));
  }
}

template <typename In, typename Acc, typename Out, typename Op, typename Scale, size_t... kSources>
constexpr LoopTable MakeTable() {
  LoopTable table = {};
  // One source needs no operator: all share a loop.
  ((table.of[kSources] = &ReduceVectors<In, Acc, Out, std::conditional_t<kSources == 1, Sum, Op>, kSources, Scale>),
   ...);
  return table;
}

template <typename In, typename Acc, typename Out, typename Scale>
constexpr Loops MakeConvertLoops() {
  Loops loops = {.in_bytes = sizeof(In),
                 .accumulator_bytes = sizeof(Acc),
                 .out_bytes = sizeof(Out),
                 .lanes = kLanes<Acc>,
                 .copies = std::is_same_v<In, Out> && !std::is_same_v<In, Bool>,
                 .plain = MakeTable<In, Acc, Out, Sum, Unscaled, 1>()};
  if constexpr (!std::is_same_v<Scale, Unscaled>) loops.divided = MakeTable<In, Acc, Out, Sum, Scale, 1>();
  return loops;
}

template <typename In, typename Acc, typename Out, typename Op, typename Scale>
constexpr Loops MakeReduceLoops() {
  Loops loops = MakeConvertLoops<In, Acc, Out, Scale>();
  // Divided or widened integers are rare, and slow in any case.
  if constexpr (std::is_floating_point_v<Acc> || sizeof(In) == sizeof(Acc)) {
    loops.plain = MakeTable<In, Acc, Out, Op, Unscaled, 1, 2, 3, 4, 8>();
  }
  if constexpr (std::is_floating_point_v<Acc> && !std::is_same_v<Scale, Unscaled>) {
    loops.divided = MakeTable<In, Acc, Out, Op, Scale, 1, 2, 3, 4, 8>();
  }
  loops.leaves = MakeTable<In, Acc, Acc, Op, Unscaled, 1, 2, 4, 8>();
  loops.combine = &ReduceVectors<Acc, Acc, Acc, Op, 2, Unscaled>;
  loops.last = &ReduceVectors<Acc, Acc, Out, Op, 2, Unscaled>;
  loops.last_divided = &ReduceVectors<Acc, Acc, Out, Op, 2, Scale>;
  return loops;
}

template <typename In, typename Acc, typename Out, typename Scale>
void Convert(void* dst, const void* src, size_t count, double divisor) {
  static constexpr Loops kLoops = MakeConvertLoops<In, Acc, Out, Scale>();
  Evaluate(kLoops, dst, &src, 1, count, divisor);
}

template <typename In, typename Acc, typename Out, typename Op, typename Scale>
void Reduce(void* dst, const void* const* sources, size_t source_count, size_t count, double divisor) {
  static constexpr Loops kLoops = MakeReduceLoops<In, Acc, Out, Op, Scale>();
  Evaluate(kLoops, dst, sources, source_count, count, divisor);
}

// The kernels for elements of format T whose accumulators are elements of format Partial, held in lanes of type Acc.
template <typename T, typename Partial, typename Acc, typename Op, typename Scale = Unscaled>
constexpr ReduceKernels MakeKernels() {
  return {.reduce = &Reduce<T, Acc, T, Op, Scale>,
          .reduce_partial = &Reduce<Partial, Acc, Partial, Op, Scale>,
          .widen = &Convert<T, Acc, Partial, Scale>,
          .narrow = &Convert<Partial, Acc, T, Scale>};
}

template <typename T>
constexpr ReduceKernels SelectInteger(ReduceOp op) {
  using Unsigned = std::make_unsigned_t<T>;
  using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
  switch (op) {
    case ReduceOp::kSum:
      return MakeKernels<Unsigned, Unsigned, Unsigned, Sum, IntegerScale<T>>();
    case ReduceOp::kAverage:
      return MakeKernels<std::conditional_t<sizeof(T) == 8, Unsigned, T>, uint64_t, uint64_t, Sum,
                         IntegerScale<Wide>>();
    case ReduceOp::kProduct:
      return MakeKernels<Unsigned, Unsigned, Unsigned, Product>();
    case ReduceOp::kMin:
      return MakeKernels<T, T, T, Min>();
    case ReduceOp::kMax:
      return MakeKernels<T, T, T, Max>();
    case ReduceOp::kBitAnd:
      return MakeKernels<Unsigned, Unsigned, Unsigned, BitAnd>();
    case ReduceOp::kBitOr:
      return MakeKernels<Unsigned, Unsigned, Unsigned, BitOr>();
    case ReduceOp::kBitXor:
      return MakeKernels<Unsigned, Unsigned, Unsigned, BitXor>();
  }
  return {};
}

template <typename T, typename Acc>
constexpr ReduceKernels SelectFloat(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return MakeKernels<T, Acc, Acc, Sum, FloatScale<Acc>>();
    case ReduceOp::kProduct:
      return MakeKernels<T, Acc, Acc, Product>();
    case ReduceOp::kMin:
      return MakeKernels<T, Acc, Acc, Min>();
    case ReduceOp::kMax:
      return MakeKernels<T, Acc, Acc, Max>();
    default:
      return {};
  }
}

constexpr ReduceKernels SelectBool(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kMax:
    case ReduceOp::kBitOr:
      return MakeKernels<Bool, Bool, uint8_t, BitOr>();
    case ReduceOp::kProduct:
    case ReduceOp::kMin:
    case ReduceOp::kBitAnd:
      return MakeKernels<Bool, Bool, uint8_t, BitAnd>();
    case ReduceOp::kBitXor:
      return MakeKernels<Bool, Bool, uint8_t, BitXor>();
    default:
      return {};
  }
}

// NOLINTNEXTLINE(misc-definitions-in-headers): in a namespace of its own in each translation unit.
ReduceKernels SelectKernels(DataType type, ReduceOp op) {
  switch (type) {
    case DataType::kInt8:
      return SelectInteger<int8_t>(op);
    case DataType::kUInt8:
      return SelectInteger<uint8_t>(op);
    case DataType::kInt16:
      return SelectInteger<int16_t>(op);
    case DataType::kUInt16:
      return SelectInteger<uint16_t>(op);
    case DataType::kInt32:
      return SelectInteger<int32_t>(op);
    case DataType::kUInt32:
      return SelectInteger<uint32_t>(op);
    case DataType::kInt64:
      return SelectInteger<int64_t>(op);
    case DataType::kUInt64:
      return SelectInteger<uint64_t>(op);
    case DataType::kFloat16:
      return SelectFloat<Float16, float>(op);
    case DataType::kBFloat16:
      return SelectFloat<BFloat16, float>(op);
    case DataType::kFloat32:
      return SelectFloat<float, float>(op);
    case DataType::kFloat64:
      return SelectFloat<double, double>(op);
    case DataType::kBool:
      return SelectBool(op);
  }
  return {};
}

}  // namespace tutti::TUTTI_INSTRUCTION_SET

#endif  // TUTTI_SRC_REDUCE_KERNEL_TEMPLATE_H_
