// The oracle against values worked out by hand: what the other tests believe.

#include "tests/reduce/oracle.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace tutti::oracle {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <typename T>
Bytes BytesOf(T value) {
  Bytes bytes(sizeof(T));
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

TEST(OracleTest, DecodesFloat16) {
  EXPECT_EQ(Decode(0x3c00, kFloat16), 1.0f);
  EXPECT_EQ(Decode(0xc000, kFloat16), -2.0f);
  EXPECT_EQ(Decode(0x7bff, kFloat16), 65504.0f);
  EXPECT_EQ(Decode(0x0001, kFloat16), 0x1p-24f);
  EXPECT_EQ(Decode(0x0400, kFloat16), 0x1p-14f);
  EXPECT_EQ(Decode(0xfc00, kFloat16), -kInfinity);
  EXPECT_TRUE(std::isnan(Decode(0x7c01, kFloat16)));
}

TEST(OracleTest, RoundsToFloat16WithTiesToEven) {
  EXPECT_EQ(Encode(1.0f, kFloat16), 0x3c00);
  EXPECT_EQ(Encode(1.0f + 0x1p-11f, kFloat16), 0x3c00);
  EXPECT_EQ(Encode(1.0f + 3 * 0x1p-11f, kFloat16), 0x3c02);
  EXPECT_EQ(Encode(1.0f + 0x1p-11f + 0x1p-20f, kFloat16), 0x3c01);
  EXPECT_EQ(Encode(0x1p-25f, kFloat16), 0x0000);
  EXPECT_EQ(Encode(-0x1.8p-25f, kFloat16), 0x8001);
  EXPECT_EQ(Encode(3 * 0x1p-25f, kFloat16), 0x0002);
  EXPECT_EQ(Encode(65519.0f, kFloat16), 0x7bff);
  EXPECT_EQ(Encode(65520.0f, kFloat16), 0x7c00);
  EXPECT_EQ(Encode(-3e38f, kFloat16), 0xfc00);
  EXPECT_EQ(Encode(-0.0f, kFloat16), 0x8000);
  EXPECT_EQ(Encode(-NAN, kFloat16), 0x7e00);
}

TEST(OracleTest, RoundsToBFloat16WithTiesToEven) {
  EXPECT_EQ(Decode(0x3f80, kBFloat16), 1.0f);
  EXPECT_EQ(Decode(0x0001, kBFloat16), 0x1p-133f);
  EXPECT_EQ(Encode(1.0f + 0x1p-8f, kBFloat16), 0x3f80);
  EXPECT_EQ(Encode(1.0f + 3 * 0x1p-8f, kBFloat16), 0x3f82);
  EXPECT_EQ(Encode(0x1p-127f, kBFloat16), 0x0040);
  EXPECT_EQ(Encode(std::numeric_limits<float>::max(), kBFloat16), 0x7f80);
  EXPECT_EQ(Encode(kInfinity, kBFloat16), 0x7f80);
  EXPECT_EQ(Encode(NAN, kBFloat16), 0x7fc0);
}

TEST(OracleTest, WrapsIntegersAndTruncatesTheirAverages) {
  EXPECT_EQ(Reduce(DataType::kInt8, ReduceOp::kSum, {BytesOf<int8_t>(100), BytesOf<int8_t>(100)}, 1),
            BytesOf<int8_t>(-56));
  EXPECT_EQ(Reduce(DataType::kUInt8, ReduceOp::kProduct, {BytesOf<uint8_t>(20), BytesOf<uint8_t>(20)}, 1),
            BytesOf<uint8_t>(144));
  EXPECT_EQ(Reduce(DataType::kInt8, ReduceOp::kAverage, {BytesOf<int8_t>(-128), BytesOf<int8_t>(-127)}, 2),
            BytesOf<int8_t>(-127));
  EXPECT_EQ(Reduce(DataType::kUInt8, ReduceOp::kAverage, {BytesOf<uint8_t>(255), BytesOf<uint8_t>(254)}, 2),
            BytesOf<uint8_t>(254));
}

TEST(OracleTest, AddsAlongTheCanonicalTree) {
  auto sum = [](std::vector<float> values) {
    std::vector<Bytes> inputs;
    for (float value : values) inputs.push_back(BytesOf(value));
    return Reduce(DataType::kFloat32, ReduceOp::kSum, inputs, 1);
  };
  EXPECT_EQ(sum({1e8f, 1, -1e8f, 1}), BytesOf((1e8f + 1) + (-1e8f + 1)));
  EXPECT_EQ(sum({1e8f, 1, -1e8f, 3, 1}), BytesOf(((1e8f + 1) + -1e8f) + (3.0f + 1)));
}

}  // namespace
}  // namespace tutti::oracle
