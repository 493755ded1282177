// Parameters that backward does not reach on some or all ranks.
#include "tests/ddp/bucketer_test.h"
#include "tests/ddp/elements.h"

namespace tutti::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

enum { kShared, kBranch, kUnused };

std::vector<Parameter> Model(DataType type) {
  return {{.name = "S", .shape = {2}, .type = type},
          {.name = "V", .shape = {2}, .type = type},
          {.name = "U", .shape = {2}, .type = type}};
}

// Both ranks use S; only rank 1 uses V, with gradient 6; nobody uses U, in whose view lies 7.
absl::StatusOr<StepReport> BranchingStep(GradientBucketer& bucketer, int rank) {
  EXPECT_TRUE(bucketer.BeginWindow().ok());
  EXPECT_TRUE(bucketer.BeginMicroBatch().ok());
  const Tensor unused = bucketer.gradient(kUnused);
  for (size_t i = 0; i < unused.count(); ++i) Store(unused.type(), unused.data(), i, 7);
  if (rank == 1) {
    AddTo(bucketer.gradient(kBranch), 6);
    EXPECT_TRUE(bucketer.MarkReady(kBranch).ok());
  }
  AddTo(bucketer.gradient(kShared), 1 + rank);
  EXPECT_TRUE(bucketer.MarkReady(kShared).ok());
  return bucketer.Finish();
}

class BucketerUnusedTest : public BucketerTest {};
TUTTI_INSTANTIATE_BUCKETER_TEST(BucketerUnusedTest);

TEST_P(BucketerUnusedTest, ARankWithoutAGradientCountsAsZeroAndNobodysParameterIsLeftAlone) {
  for (const size_t bucket_bytes : {1024, 16, 8}) {  // all in one bucket, V and U sharing one, one each
    for (const bool accumulate : {false, true}) {
      Run(2, [&](ProcessGroup& group) {
        auto bucketer = MakeBucketer(
            group, Model(accumulate ? DataType::kBFloat16 : DataType::kFloat32),
            {.accumulate_in_fp32 = accumulate, .find_unused_parameters = true, .bucket_bytes = bucket_bytes});
        for (int step = 0; step < 2; ++step) {
          const auto report = BranchingStep(*bucketer, group.rank());
          ASSERT_TRUE(report.ok()) << report.status();
          EXPECT_THAT(Values(bucketer->gradient(kShared)), Each(1.5));
          EXPECT_THAT(Values(bucketer->gradient(kBranch)), Each(3.0));
          EXPECT_THAT(Values(bucketer->gradient(kUnused)), Each(7.0));
          EXPECT_THAT(report->unused, ElementsAre("U"));
        }
      });
    }
  }
}

TEST_P(BucketerUnusedTest, WhatLiesInAnUnmarkedViewIsNotAGradient) {
  Run(2, [](ProcessGroup& group) {
    auto bucketer = MakeBucketer(group, EqualParameters(1, {2}), {.find_unused_parameters = true});
    ASSERT_TRUE(bucketer->BeginWindow().ok());
    ASSERT_TRUE(bucketer->BeginMicroBatch().ok());
    AddTo(bucketer->gradient(0), 100);
    if (group.rank() == 1) {
      ASSERT_TRUE(bucketer->MarkReady(0).ok());
    }
    ASSERT_TRUE(bucketer->Finish().ok());
    EXPECT_THAT(Values(bucketer->gradient(0)), Each(50.0));  // (0 + 100) / 2
  });
}

TEST_P(BucketerUnusedTest, AParameterThatIsUsedAgainStartsFromZero) {
  Run(2, [](ProcessGroup& group) {
    auto bucketer = MakeBucketer(group, EqualParameters(2, {2}), {.find_unused_parameters = true});
    ASSERT_TRUE(Step(*bucketer, 2, {4}).ok());
    // Not in this window: BeginWindow has cleared its last result.
    ASSERT_TRUE(bucketer->BeginWindow().ok());
    ASSERT_TRUE(bucketer->BeginMicroBatch().ok());
    AddTo(bucketer->gradient(0), 5);
    ASSERT_TRUE(bucketer->MarkReady(0).ok());
    const auto report = bucketer->Finish();
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_THAT(report->unused, ElementsAre("p1"));
    EXPECT_THAT(Values(bucketer->gradient(1)), Each(0.0));
    ASSERT_TRUE(Step(*bucketer, 2, {3}).ok());
    EXPECT_THAT(Values(bucketer->gradient(1)), Each(3.0));
  });
}

TEST_P(BucketerUnusedTest, NothingIsReportedIfEverythingIsUsed) {
  Run(3, [](ProcessGroup& group) {
    auto bucketer = MakeBucketer(group, EqualParameters(3, {2}), {.find_unused_parameters = true});
    const auto report = Step(*bucketer, 3, {1, 2});
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_THAT(report->unused, IsEmpty());
    EXPECT_EQ(report->collectives, 1);
    EXPECT_THAT(Values(bucketer->gradient(2)), Each(1.5));
  });
}

TEST_P(BucketerUnusedTest, ARankMaySkipEverything) {
  Run(2, [](ProcessGroup& group) {
    auto bucketer = MakeBucketer(group, EqualParameters(3, {2}), {.find_unused_parameters = true, .bucket_bytes = 8});
    ASSERT_TRUE(bucketer->BeginWindow().ok());
    if (group.rank() == 0) {
      ASSERT_TRUE(bucketer->BeginMicroBatch().ok());
    } else {
      ASSERT_TRUE(MicroBatch(*bucketer, 3, 8).ok());
    }
    ASSERT_TRUE(bucketer->Finish().ok());
    for (int p = 0; p < 3; ++p) EXPECT_THAT(Values(bucketer->gradient(p)), Each(4.0));
  });
}

TEST_P(BucketerUnusedTest, ZeroWeightLeavesUnusedParametersAloneToo) {
  Run(2, [](ProcessGroup& group) {
    auto bucketer =
        MakeBucketer(group, EqualParameters(2, {2}), {.scale = ScaleMode::kWeighted, .find_unused_parameters = true});
    AddTo(bucketer->gradient(1), 7);
    ASSERT_TRUE(bucketer->BeginWindow({.micro_batches = 1, .weights = {0}}).ok());
    ASSERT_TRUE(bucketer->BeginMicroBatch().ok());
    AddTo(bucketer->gradient(0), 9);
    ASSERT_TRUE(bucketer->MarkReady(0).ok());
    const auto report = bucketer->Finish();
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_TRUE(report->zero_weight);
    EXPECT_THAT(report->unused, ElementsAre("p1"));
    EXPECT_THAT(Values(bucketer->gradient(0)), Each(0.0));
    EXPECT_THAT(Values(bucketer->gradient(1)), Each(7.0));
  });
}

TEST_P(BucketerUnusedTest, WithoutDetectionItIsAnErrorOnAllRanksThatNamesParameterRankAndSwitch) {
  for (const size_t bucket_bytes : {1024, 16, 8}) {
    Run(2, [&](ProcessGroup& group) {
      auto bucketer = MakeBucketer(group, {{.name = "S", .shape = {2}}, {.name = "V", .shape = {2}}},
                                   {.bucket_bytes = bucket_bytes});
      ASSERT_TRUE(bucketer->BeginWindow().ok());
      ASSERT_TRUE(bucketer->BeginMicroBatch().ok());
      if (group.rank() == 1) {
        ASSERT_TRUE(bucketer->MarkReady(1).ok());
      }
      ASSERT_TRUE(bucketer->MarkReady(0).ok());
      const absl::Status status = bucketer->Finish().status();
      EXPECT_EQ(status.code(), group.rank() == 0 ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kAborted);
      for (const char* text : {"rank 0", "parameter 1 \"V\"", "find_unused_parameters"}) {
        EXPECT_THAT(std::string(status.message()), HasSubstr(text));
      }
      EXPECT_GT(bucketer->pending_micro_batches(), 0);
      for (const absl::Status& later : {bucketer->BeginWindow(), bucketer->BeginMicroBatch(), bucketer->MarkReady(0),
                                        bucketer->Finish().status()}) {
        EXPECT_THAT(later, IsStatus(absl::StatusCode::kFailedPrecondition, "cannot be used any more"));
        EXPECT_THAT(std::string(later.message()), HasSubstr("parameter 1 \"V\""));
      }
    });
  }
}

TEST_P(BucketerUnusedTest, ManyMissingParametersAreCountedAfterTheFirstEight) {
  Run(1, [](ProcessGroup& group) {
    auto bucketer = MakeBucketer(group, EqualParameters(20, {2}));
    ASSERT_TRUE(bucketer->BeginWindow().ok());
    ASSERT_TRUE(bucketer->BeginMicroBatch().ok());
    const std::string message(bucketer->Finish().status().message());
    EXPECT_THAT(message, HasSubstr("parameter 7 \"p7\", 12 more"));
    EXPECT_THAT(message, ::testing::Not(HasSubstr("\"p8\"")));
  });
}

}  // namespace
}  // namespace tutti::testing
