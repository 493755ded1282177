#include "tutti/tensor.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class FromStridedTest : public ::testing::Test {
 protected:
  absl::StatusOr<Tensor> View(absl::Span<const int64_t> shape, absl::Span<const int64_t> strides,
                              DataType type = DataType::kFloat32) {
    return Tensor::FromStrided(matrix_, shape, strides, type);
  }
  void ExpectRefused(absl::Span<const int64_t> shape, absl::Span<const int64_t> strides, const std::string& shape_text,
                     const std::string& strides_text) {
    absl::Status status = View(shape, strides).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("shape " + shape_text), HasSubstr("strides " + strides_text),
                      HasSubstr("not contiguous"), HasSubstr("copy it into contiguous memory")));
  }
  void ExpectTaken(absl::Span<const int64_t> shape, absl::Span<const int64_t> strides, size_t count) {
    absl::StatusOr<Tensor> tensor = View(shape, strides);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_EQ(tensor->data(), matrix_);
    EXPECT_EQ(tensor->count(), count);
    EXPECT_EQ(tensor->bytes(), count * sizeof(float));
    EXPECT_EQ(tensor->type(), DataType::kFloat32);
  }

  float matrix_[64] = {};
};

TEST_F(FromStridedTest, TakesDenseRowMajorMemory) {
  ExpectTaken({6}, {1}, 6);
  ExpectTaken({2, 3}, {3, 1}, 6);
  ExpectTaken({2, 3, 4}, {12, 4, 1}, 24);
}

TEST_F(FromStridedTest, TakesAScalar) { ExpectTaken({}, {}, 1); }

TEST_F(FromStridedTest, RefusesAColumn) { ExpectRefused({2}, {2}, "[2]", "[2]"); }

TEST_F(FromStridedTest, RefusesATransposedMatrix) { ExpectRefused({3, 2}, {1, 3}, "[3, 2]", "[1, 3]"); }

TEST_F(FromStridedTest, RefusesAnExpandedView) { ExpectRefused({4, 2}, {0, 1}, "[4, 2]", "[0, 1]"); }

TEST_F(FromStridedTest, RefusesANegativeStride) { ExpectRefused({4}, {-1}, "[4]", "[-1]"); }

TEST_F(FromStridedTest, RefusesRowsWithPadding) { ExpectRefused({2, 3}, {4, 1}, "[2, 3]", "[4, 1]"); }

TEST_F(FromStridedTest, IgnoresTheStrideOfADimensionOfSizeOne) {
  ExpectTaken({1, 3}, {77, 1}, 3);
  ExpectTaken({3, 1}, {1, -5}, 3);
  ExpectTaken({2, 1, 3}, {3, 0, 1}, 6);
  ExpectTaken({1}, {0}, 1);
}

TEST_F(FromStridedTest, IgnoresAllStridesWithoutElements) {
  ExpectTaken({0}, {9}, 0);
  ExpectTaken({3, 0}, {-7, 2}, 0);
  const int64_t huge = std::numeric_limits<int64_t>::max();
  ExpectTaken({huge, huge, 0}, {1, 1, 1}, 0);
}

TEST_F(FromStridedTest, RefusesANegativeDimension) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{-1, 2}, std::vector<int64_t>{0, -1}}) {
    absl::Status status = View(shape, {2, 1}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("negative"));
  }
}

TEST_F(FromStridedTest, RefusesASizeThatOverflows) {
  const int64_t half = int64_t{1} << 32;
  EXPECT_FALSE(View({half, half}, {half, 1}).ok());
  // The elements can be counted, their bytes cannot.
  EXPECT_FALSE(View({int64_t{1} << 61}, {1}).ok());
  EXPECT_TRUE(View({int64_t{1} << 61}, {1}, DataType::kUInt8).ok());
}

TEST_F(FromStridedTest, NeedsOneStrideADimension) {
  EXPECT_EQ(View({2, 2}, {1}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(View({}, {1}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(FromStridedTest, KeepsTheDevice) {
  const Device device = {Device::Type::kCuda, 3};
  absl::StatusOr<Tensor> tensor = Tensor::FromStrided(matrix_, {2}, {1}, DataType::kFloat32, device);
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(tensor->device(), device);
}

TEST(DataTypeTest, EachHasASizeAndANameOfItsOwn) {
  std::vector<std::string> names;
  for (int i = 0; i < kDataTypeCount; ++i) {
    const auto type = static_cast<DataType>(i);
    EXPECT_GT(ByteSize(type), 0u) << i;
    names.emplace_back(Name(type));
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
  EXPECT_EQ(ByteSize(static_cast<DataType>(kDataTypeCount)), 0u);
  EXPECT_EQ(std::string(Name(static_cast<DataType>(kDataTypeCount))), "unknown");
  EXPECT_EQ(std::string(Name(ReduceOp::kAverage)), "average");
}

}  // namespace
}  // namespace tutti
