// Every kernel of every instruction set that this machine has, against the oracle: equal bytes, always.

#include "src/reduce/reduce.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "src/schedule/canonical_tree.h"
#include "tests/reduce/oracle.h"

namespace tutti {
namespace {

using oracle::Bytes;

constexpr size_t kSourceCounts[] = {1, 2, 3, 4, 5, 7, 8, 9, 17};
constexpr size_t kSizes[] = {0, 1, 7, 31, 64, 1000, 4099};

struct Reduction {
  DataType type;
  ReduceOp op;
};

std::string Text(const Reduction& reduction) {
  return absl::StrReplaceAll(absl::StrCat(Name(reduction.type), "_", Name(reduction.op)), {{"-", "_"}});
}

std::vector<Reduction> AllReductions() {
  std::vector<Reduction> reductions;
  for (int type = 0; type < kDataTypeCount; ++type) {
    for (int op = 0; op < kReduceOpCount; ++op) {
      const Reduction reduction = {static_cast<DataType>(type), static_cast<ReduceOp>(op)};
      if (CheckReduction(reduction.type, reduction.op, 1).ok()) reductions.push_back(reduction);
    }
  }
  return reductions;
}

struct NamedKernels {
  std::string name;
  ReduceKernels kernels;
};

// Those that this machine can run.
std::vector<NamedKernels> AvailableKernels(DataType type, ReduceOp op) {
  std::vector<NamedKernels> available;
  for (InstructionSet set : {InstructionSet::kBaseline, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    const absl::StatusOr<ReduceKernels> kernels = KernelsFor(type, op, set);
    if (kernels.ok()) available.push_back({std::string(Name(set)), *kernels});
  }
  return available;
}

std::vector<Bytes> RandomInputs(DataType type, size_t sources, size_t count, std::mt19937_64& random) {
  std::vector<Bytes> inputs;
  for (size_t s = 0; s < sources; ++s) inputs.push_back(oracle::RandomElements(type, count, random));
  return inputs;
}

std::vector<const void*> Pointers(const std::vector<Bytes>& inputs) {
  std::vector<const void*> pointers;
  for (const Bytes& input : inputs) pointers.push_back(input.data());
  return pointers;
}

// Leaves a sentinel where nothing is written.
Bytes Reduced(ReduceFunction reduce, DataType type, const std::vector<Bytes>& inputs, double divisor) {
  Bytes result(inputs[0].size(), 0xa5);
  reduce(result.data(), Pointers(inputs).data(), inputs.size(), inputs[0].size() / ByteSize(type), divisor);
  return result;
}

class ReduceTest : public ::testing::TestWithParam<Reduction> {
 protected:
  const DataType type_ = GetParam().type;
  const ReduceOp op_ = GetParam().op;
  std::mt19937_64 random_{7};

  std::vector<double> Divisors(size_t sources) const {
    if (op_ != ReduceOp::kSum && op_ != ReduceOp::kAverage) return {1};
    if (type_ == DataType::kBool) return {1};
    return {1, static_cast<double>(sources)};
  }
};

INSTANTIATE_TEST_SUITE_P(AllPairs, ReduceTest, ::testing::ValuesIn(AllReductions()),
                         [](const auto& test) { return Text(test.param); });

TEST_P(ReduceTest, YieldsTheBytesOfTheOracleWithEveryInstructionSet) {
  for (size_t sources : kSourceCounts) {
    for (size_t count : kSizes) {
      const std::vector<Bytes> inputs = RandomInputs(type_, sources, count, random_);
      for (double divisor : Divisors(sources)) {
        const Bytes expected = oracle::Reduce(type_, op_, inputs, divisor);
        for (const auto& [name, kernels] : AvailableKernels(type_, op_)) {
          ASSERT_EQ(Reduced(kernels.reduce, type_, inputs, divisor), expected)
              << name << ", " << sources << " sources, " << count << " elements, divisor " << divisor;
        }
      }
    }
  }
}

TEST_P(ReduceTest, DividesLikeTheOracleByAnyDivisor) {
  if (Divisors(2).size() == 1) {
    ASSERT_FALSE(CheckReduction(type_, op_, 2).ok());
    return;
  }
  std::vector<double> divisors = {2, 3, 7, 8, 1000};
  if (IsFloatingPoint(type_)) divisors.insert(divisors.end(), {-4, 0.3, 0x1p-126, 0x1p127, 1e-40, 65504});
  if (!IsFloatingPoint(type_)) divisors.push_back(0x1p53);
  for (size_t sources : {1, 2, 5, 8}) {
    const std::vector<Bytes> inputs = RandomInputs(type_, sources, 301, random_);
    for (double divisor : divisors) {
      ASSERT_TRUE(CheckReduction(type_, op_, divisor).ok());
      const Bytes expected = oracle::Reduce(type_, op_, inputs, divisor);
      for (const auto& [name, kernels] : AvailableKernels(type_, op_)) {
        ASSERT_EQ(Reduced(kernels.reduce, type_, inputs, divisor), expected) << name << ", divisor " << divisor;
      }
    }
  }
}

TEST_P(ReduceTest, TakesAnyAlignmentAndWritesNothingBesides) {
  constexpr size_t kCount = 131;
  const size_t bytes = kCount * ByteSize(type_);
  const std::vector<Bytes> inputs = RandomInputs(type_, 5, kCount, random_);
  const Bytes expected = oracle::Reduce(type_, op_, inputs, 1);
  for (const auto& [name, kernels] : AvailableKernels(type_, op_)) {
    std::vector<Bytes> shifted;
    std::vector<const void*> sources;
    for (size_t s = 0; s < inputs.size(); ++s) {
      shifted.emplace_back(s + 1 + bytes);
      std::copy(inputs[s].begin(), inputs[s].end(), shifted.back().begin() + s + 1);
      sources.push_back(shifted.back().data() + s + 1);
    }
    Bytes result(bytes + 4, 0xa5);
    kernels.reduce(result.data() + 3, sources.data(), sources.size(), kCount, 1);
    EXPECT_EQ(Bytes(result.begin() + 3, result.end() - 1), expected) << name;
    EXPECT_EQ(result[2], 0xa5) << name;
    EXPECT_EQ(result.back(), 0xa5) << name;
  }
}

TEST_P(ReduceTest, WritesOverAnyOneOfItsSources) {
  constexpr size_t kCount = 1500;
  for (size_t sources : {1, 2, 3, 4, 6, 8, 11}) {
    const std::vector<Bytes> inputs = RandomInputs(type_, sources, kCount, random_);
    const Bytes expected = oracle::Reduce(type_, op_, inputs, 1);
    for (const auto& [name, kernels] : AvailableKernels(type_, op_)) {
      for (size_t target = 0; target < sources; ++target) {
        std::vector<Bytes> copies = inputs;
        kernels.reduce(copies[target].data(), Pointers(copies).data(), sources, kCount, 1);
        ASSERT_EQ(copies[target], expected) << name << ", source " << target << " of " << sources;
      }
    }
  }
}

TEST_P(ReduceTest, HasTheSameBytesHoweverTheRangeIsCut) {
  constexpr size_t kCount = 3001;
  const size_t size = ByteSize(type_);
  for (size_t sources : {2, 3, 7, 8}) {
    const std::vector<Bytes> inputs = RandomInputs(type_, sources, kCount, random_);
    for (const auto& [name, kernels] : AvailableKernels(type_, op_)) {
      const Bytes whole = Reduced(kernels.reduce, type_, inputs, 1);
      Bytes pieces(whole.size());
      for (size_t begin = 0; begin < kCount;) {
        const size_t count = std::min(kCount - begin, random_() % 200);
        std::vector<const void*> sources_here;
        for (const Bytes& input : inputs) sources_here.push_back(input.data() + begin * size);
        kernels.reduce(pieces.data() + begin * size, sources_here.data(), sources, count, 1);
        begin += count;
      }
      ASSERT_EQ(pieces, whole) << name << ", " << sources << " sources";
    }
  }
}

// What ranks do that meet in pairs: each widens its own elements, pairs combine partial results, the last narrows.
TEST_P(ReduceTest, HasTheSameBytesInStagesAsAtOnce) {
  constexpr size_t kCount = 777;
  const size_t partial_bytes = kCount * ByteSize(AccumulatorType(type_, op_));
  for (size_t sources : {2, 3, 4, 5, 6, 8, 13, 17}) {
    const std::vector<Bytes> inputs = RandomInputs(type_, sources, kCount, random_);
    for (double divisor : Divisors(sources)) {
      const Bytes expected = oracle::Reduce(type_, op_, inputs, divisor);
      for (const auto& [name, kernels] : AvailableKernels(type_, op_)) {
        auto widen = [&, &widen_kernel = kernels.widen](uint32_t s) {
          Bytes partial(partial_bytes);
          widen_kernel(partial.data(), inputs[s].data(), kCount, 1);
          return partial;
        };
        auto combine = [&, &partial_kernel = kernels.reduce_partial](const Bytes& left, const Bytes& right) {
          Bytes partial(partial_bytes);
          const void* const pair[] = {left.data(), right.data()};
          partial_kernel(partial.data(), pair, 2, kCount, 1);
          return partial;
        };
        const Bytes total = CanonicalTree(static_cast<uint32_t>(sources), widen, combine);
        Bytes result(expected.size());
        kernels.narrow(result.data(), total.data(), kCount, divisor);
        ASSERT_EQ(result, expected) << name << ", " << sources << " sources, divisor " << divisor;
      }
    }
  }
}

TEST_P(ReduceTest, PartialResultsOfManyAreThoseOfPairs) {
  constexpr size_t kCount = 777;
  const DataType partial = AccumulatorType(type_, op_);
  // An average's partial results are sums.
  const ReduceOp partial_op = op_ == ReduceOp::kAverage ? ReduceOp::kSum : op_;
  for (size_t sources : {2, 3, 4, 7, 8, 12}) {
    const std::vector<Bytes> inputs = RandomInputs(partial, sources, kCount, random_);
    const Bytes expected = oracle::Reduce(partial, partial_op, inputs, 1);
    for (const auto& [name, kernels] : AvailableKernels(type_, op_)) {
      ASSERT_EQ(Reduced(kernels.reduce_partial, partial, inputs, 1), expected) << name << ", " << sources << " sources";
    }
  }
}

TEST(ReduceManySourcesTest, FollowsTheCanonicalTreeForAnyNumber) {
  std::mt19937_64 random(11);
  for (DataType type : {DataType::kFloat32, DataType::kBFloat16, DataType::kInt16}) {
    const ReduceOp op = type == DataType::kInt16 ? ReduceOp::kAverage : ReduceOp::kSum;
    std::vector<size_t> many(40);
    std::iota(many.begin(), many.end(), 1);
    many.insert(many.end(), {63, 64, 65, 100, 1000, 1025});
    for (size_t sources : many) {
      const std::vector<Bytes> inputs = RandomInputs(type, sources, 53, random);
      const Bytes expected = oracle::Reduce(type, op, inputs, 3);
      for (const auto& [name, kernels] : AvailableKernels(type, op)) {
        ASSERT_EQ(Reduced(kernels.reduce, type, inputs, 3), expected) << name << ", " << sources << " sources";
      }
    }
  }
}

class HalfConversionTest : public ::testing::TestWithParam<DataType> {
 protected:
  const oracle::HalfFormat format_ = GetParam() == DataType::kFloat16 ? oracle::kFloat16 : oracle::kBFloat16;
};

INSTANTIATE_TEST_SUITE_P(Halves, HalfConversionTest, ::testing::Values(DataType::kFloat16, DataType::kBFloat16),
                         [](const auto& test) { return std::string(Name(test.param)); });

TEST_P(HalfConversionTest, WidensEveryEncoding) {
  std::vector<uint16_t> all(65536);
  std::iota(all.begin(), all.end(), 0);
  for (const auto& [name, kernels] : AvailableKernels(GetParam(), ReduceOp::kSum)) {
    std::vector<float> wide(all.size());
    kernels.widen(wide.data(), all.data(), all.size(), 1);
    for (uint16_t bits : all) {
      const float expected = oracle::Decode(bits, format_);
      ASSERT_EQ(std::bit_cast<uint32_t>(wide[bits]), std::bit_cast<uint32_t>(expected)) << name << " " << bits;
    }
  }
}

TEST_P(HalfConversionTest, RoundsToNearestEvenNextToEveryValueAndEveryMidpoint) {
  std::vector<float> values;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = oracle::Decode(static_cast<uint16_t>(bits), format_);
    if (!std::isfinite(value)) {
      values.push_back(value);
      continue;
    }
    float next = oracle::Decode(static_cast<uint16_t>(bits + 1), format_);
    if (!std::isfinite(next)) next = std::numeric_limits<float>::max();
    for (float point : {value, value + (next - value) / 2}) {
      values.insert(values.end(), {std::nextafter(point, 0.0f), point, std::nextafter(point, 2 * point)});
    }
  }
  for (const auto& [name, kernels] : AvailableKernels(GetParam(), ReduceOp::kSum)) {
    std::vector<uint16_t> narrow(values.size());
    kernels.narrow(narrow.data(), values.data(), values.size(), 1);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(narrow[i], oracle::Encode(values[i], format_)) << name << " " << values[i];
    }
  }
}

// Values written out by hand.
template <typename T>
T ReduceOne(DataType type, ReduceOp op, std::vector<T> values, double divisor) {
  std::vector<const void*> sources;
  for (const T& value : values) sources.push_back(&value);
  T result;
  KernelsFor(type, op).reduce(&result, sources.data(), sources.size(), 1, divisor);
  return result;
}

uint16_t Half(float value) { return oracle::Encode(value, oracle::kFloat16); }

TEST(ReduceValuesTest, Float16AverageNeitherOverflowsNorUnderflows) {
  const auto average = ReduceOp::kAverage;
  const std::vector<uint16_t> large(8, Half(16384));
  const std::vector<uint16_t> tiny(8, 0x0001);  // 2^-24
  EXPECT_EQ(ReduceOne(DataType::kFloat16, average, large, 8), Half(16384));
  EXPECT_EQ(ReduceOne(DataType::kFloat16, average, tiny, 8), 0x0001);
  EXPECT_EQ(ReduceOne(DataType::kFloat16, ReduceOp::kSum, large, 1), 0x7c00) << "131072 is infinite in float16";
}

TEST(ReduceValuesTest, Float16AverageCancelsInEveryOrder) {
  std::vector<float> values = {-60000, -60000, 60000, 60000};
  do {
    std::vector<uint16_t> halves;
    for (float value : values) halves.push_back(Half(value));
    EXPECT_EQ(ReduceOne(DataType::kFloat16, ReduceOp::kAverage, halves, 4), 0x0000);
  } while (std::next_permutation(values.begin(), values.end()));
}

template <typename T>
void ExpectOperatorsToldApart(DataType type, const std::function<T(int)>& of) {
  const std::vector<T> inputs = {of(3), of(5)};
  EXPECT_EQ(ReduceOne(type, ReduceOp::kSum, inputs, 1), of(8));
  EXPECT_EQ(ReduceOne(type, ReduceOp::kAverage, inputs, 2), of(4));
  EXPECT_EQ(ReduceOne(type, ReduceOp::kProduct, inputs, 1), of(15));
  EXPECT_EQ(ReduceOne(type, ReduceOp::kMin, inputs, 1), of(3));
  EXPECT_EQ(ReduceOne(type, ReduceOp::kMax, inputs, 1), of(5));
}

TEST(ReduceValuesTest, OperatorsAreNotMixedUp) {
  ExpectOperatorsToldApart<float>(DataType::kFloat32, [](int x) { return static_cast<float>(x); });
  ExpectOperatorsToldApart<double>(DataType::kFloat64, [](int x) { return x; });
  ExpectOperatorsToldApart<int32_t>(DataType::kInt32, [](int x) { return x; });
  ExpectOperatorsToldApart<uint64_t>(DataType::kUInt64, [](int x) { return x; });
  ExpectOperatorsToldApart<uint16_t>(DataType::kFloat16, [](int x) { return Half(static_cast<float>(x)); });
  ExpectOperatorsToldApart<uint16_t>(DataType::kBFloat16,
                                     [](int x) { return oracle::Encode(static_cast<float>(x), oracle::kBFloat16); });
  EXPECT_EQ(ReduceOne<uint8_t>(DataType::kUInt8, ReduceOp::kBitAnd, {0b0110, 0b0011}, 1), 0b0010);
  EXPECT_EQ(ReduceOne<uint8_t>(DataType::kUInt8, ReduceOp::kBitOr, {0b0110, 0b0011}, 1), 0b0111);
  EXPECT_EQ(ReduceOne<uint8_t>(DataType::kUInt8, ReduceOp::kBitXor, {0b0110, 0b0011}, 1), 0b0101);
}

TEST(ReduceValuesTest, MinTakesMinusZeroAndMaxPlusZero) {
  for (bool minus_first : {false, true}) {
    const std::vector<float> zeros = minus_first ? std::vector<float>{-0.0f, 0.0f} : std::vector<float>{0.0f, -0.0f};
    EXPECT_TRUE(std::signbit(ReduceOne(DataType::kFloat32, ReduceOp::kMin, zeros, 1)));
    EXPECT_FALSE(std::signbit(ReduceOne(DataType::kFloat32, ReduceOp::kMax, zeros, 1)));
  }
}

TEST(ReduceValuesTest, EveryNaNThatIsComputedHasTheSameBits) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float payload = std::bit_cast<float>(0xffc12345u);
  const float other = std::bit_cast<float>(0x7fd54321u);
  auto bits = [](ReduceOp op, std::vector<float> values) {
    return std::bit_cast<uint32_t>(ReduceOne(DataType::kFloat32, op, std::move(values), 1));
  };
  for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax}) {
    EXPECT_EQ(bits(op, {payload, other}), 0x7fc00000u) << Name(op);
    EXPECT_EQ(bits(op, {other, 1}), 0x7fc00000u) << Name(op);
    EXPECT_EQ(bits(op, {-infinity, payload}), 0x7fc00000u) << Name(op);
  }
  EXPECT_EQ(bits(ReduceOp::kSum, {infinity, -infinity}), 0x7fc00000u);
  EXPECT_EQ(bits(ReduceOp::kProduct, {infinity, 0}), 0x7fc00000u);
  EXPECT_EQ(bits(ReduceOp::kSum, {payload}), 0xffc12345u) << "one source is copied";
}

TEST(ReduceValuesTest, IntegerAveragesAreExactAndTruncateTowardZero) {
  EXPECT_EQ(ReduceOne<int8_t>(DataType::kInt8, ReduceOp::kAverage, {127, 127, 127}, 3), 127);
  EXPECT_EQ(ReduceOne<int8_t>(DataType::kInt8, ReduceOp::kAverage, {-3, -4}, 2), -3);
  EXPECT_EQ(ReduceOne<uint32_t>(DataType::kUInt32, ReduceOp::kAverage, {0xffffffff, 0xfffffffe}, 2), 0xfffffffe);
  EXPECT_EQ(ReduceOne<uint64_t>(DataType::kUInt64, ReduceOp::kAverage, {uint64_t{1} << 63, 2}, 2),
            (uint64_t{1} << 62) + 1);
  EXPECT_EQ(ReduceOne<int64_t>(DataType::kInt64, ReduceOp::kSum, {INT64_MAX, 1}, 1), INT64_MIN);
}

TEST(ReduceValuesTest, AnyByteButZeroIsTrue) {
  EXPECT_EQ(ReduceOne<uint8_t>(DataType::kBool, ReduceOp::kSum, {2, 4}, 1), 1);
  EXPECT_EQ(ReduceOne<uint8_t>(DataType::kBool, ReduceOp::kBitAnd, {2, 4}, 1), 1);
  EXPECT_EQ(ReduceOne<uint8_t>(DataType::kBool, ReduceOp::kBitXor, {2, 4}, 1), 0);
  EXPECT_EQ(ReduceOne<uint8_t>(DataType::kBool, ReduceOp::kProduct, {2, 0}, 1), 0);
  EXPECT_EQ(ReduceOne<uint8_t>(DataType::kBool, ReduceOp::kMax, {7}, 1), 1);
}

}  // namespace
}  // namespace tutti
