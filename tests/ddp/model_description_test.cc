#include "src/ddp/model_description.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/ddp/bucketer_test.h"

namespace tutti::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

ModelDescription Model(std::vector<std::pair<std::string, std::string>> parameters) {
  return {.usable = absl::OkStatus(), .options = {{"scale", "mean"}}, .parameters = std::move(parameters)};
}

const ModelDescription kModel = Model({{"w1", "float32 [8, 4]"}, {"b1", "float32 [4]"}, {"b2", "float32 [4]"}});

Comparison CompareOddOne(int odd, const ModelDescription& theirs) {
  std::vector<int> others;
  for (int rank = 0; rank < 4; ++rank) {
    if (rank != odd) others.push_back(rank);
  }
  std::vector<AgreeingRanks> groups = {{others, kModel}, {{odd}, theirs}};
  if (odd == 0) std::swap(groups[0], groups[1]);
  return Compare(groups, 4);
}

TEST(ModelDescription, SurvivesEncodingWithAnyCharacterInAName) {
  ModelDescription model = Model({{"a\tb\n\\", "float32 []"}, {"\xff\x01", "float16 [1, 2]"}});
  ModelDescription read = Decode(Encode(model));
  EXPECT_EQ(read.parameters, model.parameters);
  EXPECT_EQ(read.options, model.options);
  EXPECT_TRUE(read.usable.ok());
  model.usable = absl::ResourceExhaustedError("no\tmemory");
  EXPECT_EQ(Decode(Encode(model)).usable, model.usable);
}

TEST(ModelDescription, DecodingLeavesOutWhatItCannotUnderstand) {
  const ModelDescription read =
      Decode("option\tscale\n\nparameter\ta\tb\tc\nparameter\tw\t[1]\nunusable\t99\tx\nrubbish");
  EXPECT_THAT(read.parameters, ::testing::ElementsAre(::testing::Pair("w", "[1]")));
  EXPECT_THAT(read.options, IsEmpty());
  EXPECT_EQ(read.usable.code(), absl::StatusCode::kUnknown);
}

TEST(ModelDescription, TheOddOneOutIsNamedWhicheverRankItIs) {
  for (const int odd : {0, 2, 3}) {
    const auto comparison =
        CompareOddOne(odd, Model({{"w1", "float32 [8, 4]"}, {"b1", "float32 [5]"}, {"b2", "float32 [4]"}}));
    EXPECT_THAT(comparison.status, IsStatus(kInvalid, "rank " + std::to_string(odd) +
                                                          ": parameter 1 \"b1\" is float32 [5], "
                                                          "the others have float32 [4]"));
  }
}

TEST(ModelDescription, AnotherTypeIsADifference) {
  EXPECT_THAT(CompareOddOne(1, Model({{"w1", "float32 [8, 4]"}, {"b1", "float16 [4]"}, {"b2", "float32 [4]"}})).status,
              IsStatus(kInvalid, "\"b1\" is float16 [4], the others have float32 [4]"));
}

TEST(ModelDescription, AMissingParameterIsNamed) {
  EXPECT_THAT(CompareOddOne(2, Model({{"w1", "float32 [8, 4]"}, {"b2", "float32 [4]"}})).status,
              IsStatus(kInvalid, "rank 2: 2 parameters, the others have 3; it lacks parameter 1 \"b1\" float32 [4]"));
  EXPECT_THAT(CompareOddOne(2, Model({})).status, IsStatus(kInvalid, "rank 2: 0 parameters, the others have 3"));
}

TEST(ModelDescription, AnAdditionalParameterIsNamed) {
  auto larger = kModel;
  larger.parameters.emplace_back("b3", "float32 [9]");
  EXPECT_THAT(CompareOddOne(0, larger).status, IsStatus(kInvalid, "only it has parameter 3 \"b3\" float32 [9]"));
}

TEST(ModelDescription, SwappedParametersAreADifferenceEvenIfTheirShapesAgree) {
  EXPECT_THAT(CompareOddOne(2, Model({{"b1", "float32 [4]"}, {"w1", "float32 [8, 4]"}, {"b2", "float32 [4]"}})).status,
              IsStatus(kInvalid, "rank 2: parameter 0 \"b1\" is float32 [4], the others have \"w1\" float32 [8, 4]"));
  EXPECT_THAT(CompareOddOne(2, Model({{"w1", "float32 [8, 4]"}, {"b2", "float32 [4]"}, {"b1", "float32 [4]"}})).status,
              IsStatus(kInvalid, "registered in another order"));
}

TEST(ModelDescription, OtherNamesAloneAreAWarning) {
  const auto comparison =
      CompareOddOne(3, Model({{"w1", "float32 [8, 4]"}, {"bias", "float32 [4]"}, {"b2", "float32 [4]"}}));
  EXPECT_TRUE(comparison.status.ok()) << comparison.status;
  EXPECT_THAT(comparison.warning, HasSubstr("rank 3: parameter 1 \"bias\", the others have \"b1\""));
}

TEST(ModelDescription, OtherOptionsAreADifference) {
  ModelDescription sum = kModel;
  sum.options = {{"scale", "sum"}};
  EXPECT_THAT(CompareOddOne(1, sum).status, IsStatus(kInvalid, "rank 1: option scale is sum, the others have mean"));
}

TEST(ModelDescription, WithoutAMajorityBothSidesAreNamed) {
  const AgreeingRanks left = {{0, 2}, kModel}, right = {{1, 3}, Model({})};
  EXPECT_THAT(Compare({left, right}, 4).status,
              IsStatus(kInvalid, "ranks 1 and 3: 0 parameters, ranks 0 and 2 have 3"));
  const AgreeingRanks zero = {{0}, kModel}, one = {{1}, Model({})};
  EXPECT_THAT(Compare({zero, one}, 2).status, IsStatus(kInvalid, "rank 1: 0 parameters, rank 0 has 3"));
}

TEST(ModelDescription, EveryRankThatDiffersIsListed) {
  const AgreeingRanks most = {{0, 3, 4}, kModel}, a = {{1}, Model({})}, b = {{2}, Model({{"x", "float32 [1]"}})};
  const absl::Status status = Compare({most, a, b}, 5).status;
  EXPECT_THAT(status, IsStatus(kInvalid, "rank 1: 0 parameters, the others have 3"));
  EXPECT_THAT(status, IsStatus(kInvalid, "; rank 2: 1 parameters"));
}

TEST(ModelDescription, ARankThatCannotTakePartSpeaksForAll) {
  ModelDescription broken = Model({});
  broken.usable = absl::ResourceExhaustedError("no memory");
  const absl::Status status = CompareOddOne(2, broken).status;
  EXPECT_THAT(status, IsStatus(absl::StatusCode::kResourceExhausted, "rank 2: no memory"));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("parameters")));
}

}  // namespace
}  // namespace tutti::testing
