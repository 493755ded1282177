#include "src/reduce/reduce.h"

#include <cmath>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/reduce/kernels.h"

#if TUTTI_X86_KERNELS
#include <cpuid.h>
#endif

namespace tutti {
namespace {

bool IsSigned(DataType type) {
  return type == DataType::kInt8 || type == DataType::kInt16 || type == DataType::kInt32 || type == DataType::kInt64;
}

bool IsBitOperator(ReduceOp op) { return op == ReduceOp::kBitAnd || op == ReduceOp::kBitOr || op == ReduceOp::kBitXor; }

absl::Status CheckPair(DataType type, ReduceOp op) {
  if (static_cast<int>(type) >= kDataTypeCount) {
    return absl::InvalidArgumentError(absl::StrCat("unknown data type ", static_cast<int>(type),
                                                   ": the known ones are 0 (", Name(DataType{}), ") to ",
                                                   kDataTypeCount - 1));
  }
  if (static_cast<int>(op) >= kReduceOpCount) {
    return absl::InvalidArgumentError(absl::StrCat("unknown reduction operator ", static_cast<int>(op),
                                                   ": the known ones are 0 (", Name(ReduceOp{}), ") to ",
                                                   kReduceOpCount - 1));
  }
  if (IsBitOperator(op) && IsFloatingPoint(type)) {
    return absl::InvalidArgumentError(
        absl::StrCat("reduction operator ", Name(op), " takes integers and bool, not ", Name(type)));
  }
  if (op == ReduceOp::kAverage && type == DataType::kBool) {
    return absl::InvalidArgumentError(
        "reduction operator average takes numbers, not bool; max is \"any\", min is \"all\"");
  }
  return absl::OkStatus();
}

// Whether the arithmetic of the type can divide by it.
bool IsUsable(double divisor, DataType type) {
  if (type == DataType::kFloat64) return std::isfinite(divisor) && divisor != 0;
  if (IsFloatingPoint(type)) {
    // A conversion of what fp32 cannot hold would be undefined; between its largest number and twice that, infinite.
    constexpr double kBeyond = 0x1p128;
    return std::abs(divisor) < kBeyond && std::isfinite(static_cast<float>(divisor)) &&
           static_cast<float>(divisor) != 0;
  }
  constexpr double kMostExact = 0x1p53;
  return divisor >= 1 && divisor <= kMostExact && divisor == std::floor(divisor);
}

absl::string_view UsableDivisors(DataType type) {
  if (type == DataType::kFloat64) return "finite and not 0";
  if (IsFloatingPoint(type)) return "finite and not 0 in float32";
  return "a whole number from 1 to 2^53";
}

#if TUTTI_X86_KERNELS
// F16C has no name in __builtin_cpu_supports of older compilers. Its registers are those of AVX2, so that the operating
// system's part is covered there.
bool HasF16c() {
  unsigned int eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

bool IsAvailable(InstructionSet set) {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && HasF16c();
  switch (set) {
    case InstructionSet::kBaseline:
      return true;
    case InstructionSet::kAvx2:
      return avx2;
    case InstructionSet::kAvx512:
      return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  }
  return false;
}

ReduceKernels Select(DataType type, ReduceOp op, InstructionSet set) {
  switch (set) {
    case InstructionSet::kBaseline:
      break;
    case InstructionSet::kAvx2:
      return avx2::SelectKernels(type, op);
    case InstructionSet::kAvx512:
      return avx512::SelectKernels(type, op);
  }
  return baseline::SelectKernels(type, op);
}
#else
bool IsAvailable(InstructionSet set) { return set == InstructionSet::kBaseline; }

ReduceKernels Select(DataType type, ReduceOp op, InstructionSet) { return baseline::SelectKernels(type, op); }
#endif

}  // namespace

DataType AccumulatorType(DataType type, ReduceOp op) {
  if (type == DataType::kFloat16 || type == DataType::kBFloat16) return DataType::kFloat32;
  if (op != ReduceOp::kAverage || IsFloatingPoint(type) || type == DataType::kBool) return type;
  return IsSigned(type) ? DataType::kInt64 : DataType::kUInt64;
}

absl::Status CheckReduction(DataType type, ReduceOp op, double divisor) {
  if (absl::Status pair = CheckPair(type, op); !pair.ok()) return pair;
  if (divisor == 1) return absl::OkStatus();
  if (op != ReduceOp::kSum && op != ReduceOp::kAverage) {
    return absl::InvalidArgumentError(absl::StrCat("divisor ", divisor, " with reduction operator ", Name(op),
                                                   ": only sum and average divide; pass 1"));
  }
  if (type == DataType::kBool) {
    return absl::InvalidArgumentError(absl::StrCat("divisor ", divisor, " for bool: only numbers are divided; pass 1"));
  }
  if (!IsUsable(divisor, type)) {
    return absl::InvalidArgumentError(
        absl::StrCat("divisor ", divisor, " for ", Name(type), ": must be ", UsableDivisors(type)));
  }
  return absl::OkStatus();
}

absl::string_view Name(InstructionSet set) {
  switch (set) {
    case InstructionSet::kBaseline:
      return "baseline";
    case InstructionSet::kAvx2:
      return "avx2";
    case InstructionSet::kAvx512:
      return "avx512";
  }
  return "unknown";
}

InstructionSet ChosenInstructionSet() {
  static const InstructionSet chosen = [] {
    for (InstructionSet set : {InstructionSet::kAvx512, InstructionSet::kAvx2}) {
      if (IsAvailable(set)) return set;
    }
    return InstructionSet::kBaseline;
  }();
  return chosen;
}

ReduceKernels KernelsFor(DataType type, ReduceOp op) { return Select(type, op, ChosenInstructionSet()); }

absl::StatusOr<ReduceKernels> KernelsFor(DataType type, ReduceOp op, InstructionSet set) {
  if (absl::Status pair = CheckPair(type, op); !pair.ok()) return pair;
  if (!IsAvailable(set)) {
    return absl::UnavailableError(absl::StrCat("this machine cannot run the ", Name(set), " kernels"));
  }
  return Select(type, op, set);
}

}  // namespace tutti
