#include <cmath>
#include <limits>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/reduce/reduce.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

void ExpectRefused(DataType type, ReduceOp op, double divisor, const ::testing::Matcher<const std::string&>& message) {
  const absl::Status status = CheckReduction(type, op, divisor);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), message);
}

TEST(CheckReductionTest, NamesUnknownCodes) {
  ExpectRefused(static_cast<DataType>(99), ReduceOp::kSum, 1, HasSubstr("unknown data type 99"));
  ExpectRefused(static_cast<DataType>(kDataTypeCount), ReduceOp::kSum, 1, HasSubstr("13"));
  ExpectRefused(DataType::kFloat32, static_cast<ReduceOp>(99), 1, HasSubstr("unknown reduction operator 99"));
  ExpectRefused(DataType::kFloat32, static_cast<ReduceOp>(-1), 1, HasSubstr("255"));
}

TEST(CheckReductionTest, AcceptsEveryOperatorThatIsDefinedForTheType) {
  for (int t = 0; t < kDataTypeCount; ++t) {
    for (int o = 0; o < kReduceOpCount; ++o) {
      const auto type = static_cast<DataType>(t);
      const auto op = static_cast<ReduceOp>(o);
      const bool bits = op >= ReduceOp::kBitAnd;
      const bool defined = !(bits && IsFloatingPoint(type)) && !(type == DataType::kBool && op == ReduceOp::kAverage);
      EXPECT_EQ(CheckReduction(type, op, 1).ok(), defined) << Name(type) << " " << Name(op);
    }
  }
}

TEST(CheckReductionTest, SaysWhichPairIsUndefined) {
  ExpectRefused(DataType::kBFloat16, ReduceOp::kBitXor, 1, AllOf(HasSubstr("bit-xor"), HasSubstr("bfloat16")));
  ExpectRefused(DataType::kBool, ReduceOp::kAverage, 1, AllOf(HasSubstr("average"), HasSubstr("bool")));
}

TEST(CheckReductionTest, RefusesDivisorsThatAreNoNumberToDivideBy) {
  for (DataType type :
       {DataType::kInt32, DataType::kFloat16, DataType::kBFloat16, DataType::kFloat32, DataType::kFloat64}) {
    for (double divisor : {0.0, -0.0, kNaN, kInfinity, -kInfinity}) {
      for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage}) {
        ExpectRefused(type, op, divisor, AllOf(HasSubstr("divisor"), HasSubstr(std::string(Name(type)))));
      }
    }
  }
}

TEST(CheckReductionTest, RefusesDivisorsThatVanishOrOverflowInFloat32) {
  for (double divisor : {1e-60, 1e60, -1e300, 0x1p128 - 0x1p100}) {
    ExpectRefused(DataType::kFloat16, ReduceOp::kAverage, divisor, HasSubstr("float32"));
    EXPECT_TRUE(CheckReduction(DataType::kFloat64, ReduceOp::kAverage, divisor).ok()) << divisor;
  }
  EXPECT_TRUE(CheckReduction(DataType::kFloat16, ReduceOp::kAverage, -0.25).ok());
  EXPECT_TRUE(CheckReduction(DataType::kFloat32, ReduceOp::kSum, 1e-40).ok());
}

TEST(CheckReductionTest, IntegersTakeWholeDivisorsOnly) {
  for (double divisor : {2.5, 0.5, -1.0, -2.0, 0x1p54, 1e300}) {
    ExpectRefused(DataType::kInt64, ReduceOp::kAverage, divisor, HasSubstr("whole number from 1 to 2^53"));
    ExpectRefused(DataType::kUInt8, ReduceOp::kSum, divisor, HasSubstr("whole number from 1 to 2^53"));
  }
  EXPECT_TRUE(CheckReduction(DataType::kInt64, ReduceOp::kAverage, 0x1p53).ok());
  EXPECT_TRUE(CheckReduction(DataType::kUInt8, ReduceOp::kSum, 1000).ok());
}

TEST(CheckReductionTest, OnlySumsAndAveragesOfNumbersAreDivided) {
  for (ReduceOp op : {ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax}) {
    ExpectRefused(DataType::kFloat32, op, 2, AllOf(HasSubstr("divisor 2"), HasSubstr(std::string(Name(op)))));
    ExpectRefused(DataType::kInt32, op, kNaN, HasSubstr(std::string(Name(op))));
  }
  ExpectRefused(DataType::kInt32, ReduceOp::kBitOr, 2, HasSubstr("bit-or"));
  ExpectRefused(DataType::kBool, ReduceOp::kSum, 2, HasSubstr("bool"));
}

TEST(CheckReductionTest, AccumulatorsAreWideWhereTheHeaderSaysSo) {
  EXPECT_EQ(AccumulatorType(DataType::kFloat16, ReduceOp::kMax), DataType::kFloat32);
  EXPECT_EQ(AccumulatorType(DataType::kBFloat16, ReduceOp::kAverage), DataType::kFloat32);
  EXPECT_EQ(AccumulatorType(DataType::kFloat64, ReduceOp::kAverage), DataType::kFloat64);
  EXPECT_EQ(AccumulatorType(DataType::kInt8, ReduceOp::kAverage), DataType::kInt64);
  EXPECT_EQ(AccumulatorType(DataType::kUInt16, ReduceOp::kAverage), DataType::kUInt64);
  EXPECT_EQ(AccumulatorType(DataType::kInt8, ReduceOp::kSum), DataType::kInt8);
  EXPECT_EQ(AccumulatorType(DataType::kBool, ReduceOp::kSum), DataType::kBool);
}

TEST(CheckReductionTest, KernelsOfAnUnknownInstructionSetAreUnavailable) {
  const auto kernels = KernelsFor(DataType::kFloat32, ReduceOp::kSum, static_cast<InstructionSet>(77));
  EXPECT_EQ(kernels.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(KernelsFor(DataType::kFloat32, ReduceOp::kSum, ChosenInstructionSet()).ok());
  EXPECT_TRUE(KernelsFor(DataType::kFloat32, ReduceOp::kSum, InstructionSet::kBaseline).ok());
  EXPECT_EQ(KernelsFor(DataType::kFloat32, ReduceOp::kBitOr, InstructionSet::kBaseline).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tutti
