// Create on ranks whose models, options or means differ.
#include <sstream>

#include "spdlog/sinks/ostream_sink.h"
#include "src/base/log.h"
#include "tests/ddp/bucketer_test.h"
#include "tests/ddp/elements.h"

namespace tutti::testing {
namespace {

using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

const std::vector<Parameter> kModel = {
    {.name = "w1", .shape = {8, 4}}, {.name = "b1", .shape = {4}}, {.name = "b2", .shape = {4}}};

class BucketerAgreementTest : public BucketerTest {
 protected:
  // Rank `odd` of 4 creates another bucketer than the others. All must fail alike, and the group must survive.
  void ExpectRefusal(int odd, const std::vector<Parameter>& parameters, const BucketerOptions& options,
                     absl::StatusCode code, const std::string& text) {
    Run(4, [&](ProcessGroup& group) {
      const bool is_odd = group.rank() == odd;
      const auto bucketer =
          GradientBucketer::Create(group, is_odd ? parameters : kModel, is_odd ? options : BucketerOptions());
      EXPECT_THAT(bucketer.status(), IsStatus(code, text));
      EXPECT_TRUE(group.Barrier().Wait().ok());
      auto next = MakeBucketer(group, kModel);
      EXPECT_TRUE(Step(*next, 3, {1}).ok());
    });
  }
};
TUTTI_INSTANTIATE_BUCKETER_TEST(BucketerAgreementTest);

TEST_P(BucketerAgreementTest, EveryRankHearsWhichRankHasAnotherShape) {
  for (const int odd : {0, 2}) {
    ExpectRefusal(odd, {kModel[0], {.name = "b1", .shape = {5}}, kModel[2]}, {}, kInvalid,
                  "rank " + std::to_string(odd) + ": parameter 1 \"b1\" is float32 [5], the others have float32 [4]");
  }
}

TEST_P(BucketerAgreementTest, EveryRankHearsWhichRankHasAnotherNumberOfParameters) {
  ExpectRefusal(2, {kModel[0], kModel[2]}, {}, kInvalid,
                "rank 2: 2 parameters, the others have 3; it lacks parameter 1 \"b1\"");
  ExpectRefusal(0, {}, {}, kInvalid, "rank 0: 0 parameters, the others have 3");
}

TEST_P(BucketerAgreementTest, EveryRankHearsWhichRankHasAnotherType) {
  ExpectRefusal(3, {kModel[0], kModel[1], {.name = "b2", .shape = {4}, .type = DataType::kBFloat16}}, {}, kInvalid,
                "rank 3: parameter 2 \"b2\" is bfloat16 [4], the others have float32 [4]");
}

TEST_P(BucketerAgreementTest, EveryRankHearsWhichRankHasSwappedParameters) {
  ExpectRefusal(2, {kModel[1], kModel[0], kModel[2]}, {}, kInvalid, "rank 2: parameter 0 \"b1\"");
  ExpectRefusal(2, {kModel[0], kModel[2], kModel[1]}, {}, kInvalid, "registered in another order");
}

TEST_P(BucketerAgreementTest, EveryRankHearsWhichRankHasOtherOptions) {
  ExpectRefusal(1, kModel, {.scale = ScaleMode::kSum}, kInvalid, "rank 1: option scale is sum, the others have mean");
  ExpectRefusal(1, kModel, {.accumulate_in_fp32 = true}, kInvalid, "option accumulate_in_fp32 is true");
  ExpectRefusal(1, kModel, {.find_unused_parameters = true}, kInvalid, "option find_unused_parameters is true");
  ExpectRefusal(1, kModel, {.bucket_bytes = 1024}, kInvalid, "option bucket_bytes is 1024, the others have 26214400");
  ExpectRefusal(1, kModel, {.first_bucket_bytes = 4}, kInvalid,
                "option first_bucket_bytes is 4, the others have 1048576");
}

TEST_P(BucketerAgreementTest, EveryRankHearsWhatOneRankCannotAccept) {
  std::vector<Parameter> strided = kModel;
  strided[0].strides = {1, 8};
  ExpectRefusal(1, strided, {}, kInvalid, "rank 1: parameter 0 \"w1\" must be dense");
  std::vector<Parameter> integers = kModel;
  integers[1].type = DataType::kInt32;
  ExpectRefusal(3, integers, {}, kInvalid, "rank 3: parameter 1 \"b1\" is int32");
  ExpectRefusal(0, kModel, {.bucket_bytes = 1}, kInvalid, "rank 0: bucket_bytes is 1, less than one float32 element");
  ExpectRefusal(0, kModel, {.scale = static_cast<ScaleMode>(9)}, kInvalid, "rank 0: there is no scale mode 9");
}

TEST_P(BucketerAgreementTest, WhatNoRankCanAcceptIsRefusedOnAll) {
  Run(3, [](ProcessGroup& group) {
    EXPECT_THAT(GradientBucketer::Create(group, {{.name = "a"}, {.name = "a"}}).status(),
                IsStatus(kInvalid, "parameter 1 \"a\" has the name of parameter 0"));
    EXPECT_THAT(GradientBucketer::Create(group, kModel, {.bucket_bytes = 0}).status(),
                IsStatus(kInvalid, "bucket_bytes is 0"));
    EXPECT_TRUE(group.Barrier().Wait().ok());
  });
}

TEST_P(BucketerAgreementTest, OtherNamesAloneAreLoggedOnceAndWork) {
  std::ostringstream log;
  const auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(log);
  Logger().sinks().push_back(sink);
  Run(3, [](ProcessGroup& group) {
    std::vector<Parameter> parameters = kModel;
    if (group.rank() == 1) parameters[2].name = "bias";
    auto bucketer = MakeBucketer(group, parameters);
    ASSERT_TRUE(Step(*bucketer, 3, {group.rank() + 1.0}).ok());
    EXPECT_THAT(Values(bucketer->gradient(2)), ::testing::Each(2.0));
  });
  Logger().sinks().pop_back();
  const std::string text = log.str();
  EXPECT_THAT(text, HasSubstr("rank 1: parameter 2 \"bias\", the others have \"b2\""));
  EXPECT_EQ(text.find("parameter names differ"), text.rfind("parameter names differ"));
}

TEST_P(BucketerAgreementTest, NamesOfTheirOwnOnAllRanksDoNotHideAnotherShape) {
  Run(10, [](ProcessGroup& group) {
    const std::string name = "of rank " + std::to_string(group.rank());
    EXPECT_THAT(GradientBucketer::Create(group, {{.name = name, .shape = {group.rank() == 9 ? 5 : 4}}}).status(),
                IsStatus(kInvalid, "rank 9: parameter 0 \"of rank 9\" is float32 [5], the others have \"of rank 0\""));
    EXPECT_TRUE(GradientBucketer::Create(group, {{.name = name, .shape = {4}}}).ok());
  });
}

TEST_P(BucketerAgreementTest, ManyRanksMayAllDiffer) {
  Run(10, [](ProcessGroup& group) {
    const auto status = GradientBucketer::Create(group, EqualParameters(group.rank() + 1, {2})).status();
    EXPECT_THAT(status, IsStatus(kInvalid, "rank 1: 2 parameters, rank 0 has 1"));
    EXPECT_TRUE(group.Barrier().Wait().ok());
  });
}

}  // namespace
}  // namespace tutti::testing
