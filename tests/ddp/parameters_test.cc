#include "src/ddp/parameters.h"

#include <cstdint>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/ddp/bucketer_test.h"

namespace tutti::testing {
namespace {

using ::testing::ElementsAre;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(Parameters, AreCountedByTheProductOfTheirShape) {
  const auto counts = CountElements({{.name = "matrix", .shape = {3, 4}},
                                     {.name = "scalar", .shape = {}},
                                     {.name = "empty", .shape = {5, 0, int64_t{1} << 62, int64_t{1} << 62}},
                                     {.name = "half", .shape = {7}, .type = DataType::kFloat16}});
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_THAT(*counts, ElementsAre(12, 1, 0, 7));
}

TEST(Parameters, WithoutOrWithTheSameNameAreRefused) {
  EXPECT_THAT(CountElements({{.name = "a"}, {.name = ""}}).status(),
              IsStatus(kInvalid, "parameter 1 \"\" has no name"));
  EXPECT_THAT(CountElements({{.name = "a"}, {.name = "b"}, {.name = "a"}}).status(),
              IsStatus(kInvalid, "parameter 2 \"a\" has the name of parameter 0"));
}

TEST(Parameters, OfIntegersAreRefused) {
  EXPECT_THAT(CountElements({{.name = "ids", .shape = {2}, .type = DataType::kInt64}}).status(),
              IsStatus(kInvalid, "parameter 0 \"ids\" is int64"));
}

TEST(Parameters, OfImpossibleShapesAreRefused) {
  EXPECT_THAT(CountElements({{.name = "a", .shape = {2, -1}}}).status(), IsStatus(kInvalid, "float32 [2, -1]"));
  EXPECT_THAT(CountElements({{.name = "a", .shape = {0, -1}}}).status(), IsStatus(kInvalid, "negative dimension"));
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(CountElements({{.name = "a", .shape = {kHuge}}}).status(), IsStatus(kInvalid, "too large"));
  EXPECT_THAT(CountElements({{.name = "a", .shape = {kHuge, kHuge, kHuge}}}).status(), IsStatus(kInvalid, "too large"));
  constexpr int64_t kHalf = int64_t{1} << 59;
  EXPECT_THAT(
      CountElements({{.name = "a", .shape = {kHalf}}, {.name = "b", .shape = {kHalf}}, {.name = "c", .shape = {1}}})
          .status(),
      IsStatus(kInvalid, "parameter 2 \"c\" makes the model too large"));
}

TEST(Parameters, ThatAreNotDenseAreRefusedWithShapeAndStrides) {
  EXPECT_TRUE(CountElements({{.name = "rows", .shape = {2, 3}, .strides = {3, 1}}}).ok());
  EXPECT_TRUE(CountElements({{.name = "column", .shape = {4, 1}, .strides = {1, 99}}}).ok());
  const std::vector<std::vector<int64_t>> strides = {{1, 2}, {0, 1}, {3, -1}, {6, 2}};
  for (const auto& bad : strides) {
    const absl::Status status = CountElements({{.name = "w", .shape = {2, 3}, .strides = bad}}).status();
    EXPECT_THAT(status, IsStatus(kInvalid, "parameter 0 \"w\""));
    EXPECT_THAT(std::string(status.message()), ::testing::ContainsRegex("2, ?3"));
  }
}

TEST(Parameters, ThatShareStorageAreRefusedByBothNames) {
  float storage[8] = {};
  auto at = [&](std::string name, int offset, int64_t count) {
    return Parameter{.name = std::move(name), .shape = {count}, .storage = storage + offset};
  };
  EXPECT_THAT(CountElements({at("wte", 0, 8), at("b", 0, 0), at("lm_head", 0, 8)}).status(),
              IsStatus(kInvalid, "parameter 2 \"lm_head\" shares storage with parameter 0 \"wte\""));
  EXPECT_THAT(CountElements({at("tail", 3, 5), at("head", 0, 4)}).status(),
              IsStatus(kInvalid, "parameter 1 \"head\" shares storage with parameter 0 \"tail\""));
  EXPECT_TRUE(CountElements({at("tail", 4, 4), at("head", 0, 4)}).ok());
  EXPECT_TRUE(CountElements({{.name = "a", .shape = {8}}, {.name = "b", .shape = {8}}}).ok());
}

TEST(Parameters, AreNamedWithTheirSpecialCharactersEscaped) {
  EXPECT_EQ(ParameterLabel(3, "a\nb"), "parameter 3 \"a\\nb\"");
}

}  // namespace
}  // namespace tutti::testing
