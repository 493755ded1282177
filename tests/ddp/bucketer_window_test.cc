// The life of a window: order of calls, accumulation, reports.
#include <atomic>
#include <thread>

#include "tests/ddp/bucketer_test.h"
#include "tests/ddp/elements.h"

namespace tutti::testing {
namespace {

using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr auto kOutOfOrder = absl::StatusCode::kFailedPrecondition;

class BucketerWindowTest : public BucketerTest {};
TUTTI_INSTANTIATE_BUCKETER_TEST(BucketerWindowTest);

TEST_P(BucketerWindowTest, GradientsOfOneWindowDoNotLeakIntoTheNext) {
  Run(3, [](ProcessGroup& group) {
    auto bucketer = MakeBucketer(group, EqualParameters(2, {4}));
    for (int step = 1; step <= 3; ++step) {
      ASSERT_TRUE(Step(*bucketer, 2, {1.0 * step, 3.0 * step}).ok());
      for (int p = 0; p < 2; ++p) EXPECT_THAT(Values(bucketer->gradient(p)), Each(2.0 * step));
    }
  });
}

TEST_P(BucketerWindowTest, ViewsNeverMoveWhateverTheOrderOfReadiness) {
  Run(2, [](ProcessGroup& group) {
    auto bucketer =
        MakeBucketer(group, EqualParameters(3, {4}), {.scale = ScaleMode::kMeanOverRanks, .bucket_bytes = 16});
    const double values[2][2] = {{1, 3}, {2, 5}};
    std::vector<void*> addresses;
    for (int p = 0; p < 3; ++p) addresses.push_back(bucketer->gradient(p).data());
    for (int step = 0; step < 3; ++step) {
      ASSERT_TRUE(bucketer->BeginWindow({.micro_batches = 2}).ok());
      for (const double value : values[group.rank()]) {
        ASSERT_TRUE(bucketer->BeginMicroBatch().ok());
        for (const int p : {0, 2, 1}) {  // not the order of the plan
          AddTo(bucketer->gradient(p), value);
          ASSERT_TRUE(bucketer->MarkReady(p).ok());
        }
      }
      ASSERT_TRUE(bucketer->Finish().ok());
      for (int p = 0; p < 3; ++p) {
        EXPECT_EQ(bucketer->gradient(p).data(), addresses[p]);
        EXPECT_THAT(Values(bucketer->gradient(p)), Each(5.5));  // (1 + 3 + 2 + 5) / 2
      }
    }
  });
}

TEST_P(BucketerWindowTest, AMarkedGradientOfAnEarlierMicroBatchIsEnough) {
  for (const bool accumulate : {false, true}) {
    Run(2, [&](ProcessGroup& group) {
      auto bucketer =
          MakeBucketer(group, EqualParameters(2, {4}, DataType::kFloat16), {.accumulate_in_fp32 = accumulate});
      ASSERT_TRUE(bucketer->BeginWindow({.micro_batches = 2}).ok());
      ASSERT_TRUE(MicroBatch(*bucketer, 2, 6).ok());
      ASSERT_TRUE(bucketer->BeginMicroBatch().ok());
      AddTo(bucketer->gradient(0), 2);
      ASSERT_TRUE(bucketer->MarkReady(0).ok());
      ASSERT_TRUE(bucketer->Finish().ok());
      EXPECT_THAT(Values(bucketer->gradient(0)), Each(4.0));  // 2 * (6 + 2) / 4
      EXPECT_THAT(Values(bucketer->gradient(1)), Each(3.0));  // 2 * 6 / 4
    });
  }
}

TEST_P(BucketerWindowTest, PendingMicroBatchesTellReducedFromUnreducedGradients) {
  Run(2, [](ProcessGroup& group) {
    auto bucketer = MakeBucketer(group, EqualParameters(1, {4}));
    EXPECT_EQ(bucketer->pending_micro_batches(), 0);
    ASSERT_TRUE(bucketer->BeginWindow({.micro_batches = 2}).ok());
    EXPECT_EQ(bucketer->pending_micro_batches(), 2);
    ASSERT_TRUE(MicroBatch(*bucketer, 1, 1).ok());
    EXPECT_EQ(bucketer->pending_micro_batches(), 2);
    ASSERT_TRUE(MicroBatch(*bucketer, 1, 1).ok());
    EXPECT_EQ(bucketer->pending_micro_batches(), 1);
    ASSERT_TRUE(bucketer->Finish().ok());
    EXPECT_EQ(bucketer->pending_micro_batches(), 0);
  });
}

TEST_P(BucketerWindowTest, WrongCallsAreRefusedByNameAndChangeNothing) {
  Run(2, [](ProcessGroup& group) {
    auto bucketer = MakeBucketer(group, EqualParameters(2, {4}));
    EXPECT_THAT(bucketer->Finish().status(), IsStatus(kOutOfOrder, "expected BeginWindow"));
    EXPECT_THAT(bucketer->BeginMicroBatch(), IsStatus(kOutOfOrder, "expected BeginWindow"));
    EXPECT_THAT(bucketer->MarkReady(1), IsStatus(kOutOfOrder, "parameter 1 \"p1\""));
    EXPECT_THAT(bucketer->BeginWindow({.micro_batches = 0}), IsStatus(absl::StatusCode::kInvalidArgument, "not 0"));
    ASSERT_TRUE(bucketer->BeginWindow({.micro_batches = 2}).ok());
    EXPECT_THAT(bucketer->BeginWindow(), IsStatus(kOutOfOrder, "BeginWindow: 0 of 2 micro-batches have begun"));
    EXPECT_THAT(bucketer->MarkReady(0), IsStatus(kOutOfOrder, "parameter 0 \"p0\""));
    ASSERT_TRUE(MicroBatch(*bucketer, 2, 1).ok());
    EXPECT_THAT(bucketer->Finish().status(), IsStatus(kOutOfOrder, "1 of 2 micro-batches have begun"));
    EXPECT_THAT(bucketer->MarkReady(1), IsStatus(kOutOfOrder, "\"p1\" is marked for the second time"));
    EXPECT_THAT(bucketer->MarkReady(2), IsStatus(absl::StatusCode::kInvalidArgument, "no parameter 2"));
    EXPECT_EQ(bucketer->gradient(2).data(), nullptr);
    EXPECT_EQ(bucketer->gradient(-1).data(), nullptr);
    ASSERT_TRUE(MicroBatch(*bucketer, 2, 3).ok());
    EXPECT_THAT(bucketer->BeginMicroBatch(), IsStatus(kOutOfOrder, "2 of 2 micro-batches"));
    ASSERT_TRUE(bucketer->Finish().ok());
    EXPECT_THAT(Values(bucketer->gradient(0)), Each(2.0));
    EXPECT_THAT(bucketer->Finish().status(), IsStatus(kOutOfOrder, "expected BeginWindow"));
  });
}

TEST_P(BucketerWindowTest, ParametersWithoutElementsAreMarkedLikeOthers) {
  Run(2, [](ProcessGroup& group) {
    auto bucketer = MakeBucketer(group, {{.name = "none", .shape = {0, 4}}, {.name = "some", .shape = {2}}});
    EXPECT_EQ(bucketer->gradient(0).count(), 0u);
    const auto report = Step(*bucketer, 2, {3});
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->collectives, 1);
    ASSERT_TRUE(bucketer->BeginWindow().ok());
    ASSERT_TRUE(bucketer->BeginMicroBatch().ok());
    ASSERT_TRUE(bucketer->MarkReady(1).ok());
    EXPECT_THAT(std::string(bucketer->Finish().status().message()), ::testing::HasSubstr("parameter 0 \"none\""));
  });
}

TEST_P(BucketerWindowTest, AModelWithoutParametersHasNothingToReduce) {
  Run(2, [](ProcessGroup& group) {
    auto bucketer = MakeBucketer(group, {}, {.find_unused_parameters = true});
    const auto report = Step(*bucketer, 0, {1});
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->collectives, 0);
  });
}

TEST_P(BucketerWindowTest, TheReportAccountsForEveryBucket) {
  Run(2, [](ProcessGroup& group) {
    auto bucketer = MakeBucketer(group, EqualParameters(5, {4}), {.bucket_bytes = 32});
    const auto report = Step(*bucketer, 5, {1, 2});
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->bytes, 80u);
    EXPECT_EQ(report->collectives, 3);
    EXPECT_THAT(report->unused, IsEmpty());
    ASSERT_THAT(report->buckets, SizeIs(3));
    EXPECT_EQ(report->buckets[2].bytes, 16u);
    for (const BucketReport& bucket : report->buckets) {
      EXPECT_GE(bucket.ready, absl::ZeroDuration());
      EXPECT_GE(bucket.launched, bucket.ready);
      EXPECT_GE(bucket.finished, bucket.launched);
      EXPECT_GE(report->window, bucket.finished);
    }
    EXPECT_GE(report->exposed, absl::ZeroDuration());
    EXPECT_LE(report->exposed, report->window);
  });
}

TEST_P(BucketerWindowTest, ThreadsMayMarkDifferentParametersAtOnce) {
  constexpr int kThreads = 4, kParameters = 64;
  for (const bool accumulate : {false, true}) {
    Run(3, [&](ProcessGroup& group) {
      auto bucketer = MakeBucketer(group, EqualParameters(kParameters, {7}, DataType::kFloat16),
                                   {.accumulate_in_fp32 = accumulate, .bucket_bytes = 64});
      for (int step = 0; step < 5; ++step) {
        ASSERT_TRUE(bucketer->BeginWindow({.micro_batches = 2}).ok());
        for (int m = 0; m < 2; ++m) {
          ASSERT_TRUE(bucketer->BeginMicroBatch().ok());
          std::vector<std::thread> threads;
          for (int t = 0; t < kThreads; ++t) {
            threads.emplace_back([&, t] {
              for (int p = t; p < kParameters; p += kThreads) {
                AddTo(bucketer->gradient(p), p + group.rank());
                EXPECT_TRUE(bucketer->MarkReady(p).ok());
              }
            });
          }
          for (std::thread& thread : threads) thread.join();
        }
        const auto report = bucketer->Finish();
        ASSERT_TRUE(report.ok()) << report.status();
        for (int p = 0; p < kParameters; ++p) EXPECT_THAT(Values(bucketer->gradient(p)), Each(p + 1.0));
      }
    });
  }
}

TEST_P(BucketerWindowTest, OneOfManyThreadsMarksAParameterFirst) {
  Run(1, [](ProcessGroup& group) {
    auto bucketer = MakeBucketer(group, EqualParameters(1, {4}));
    ASSERT_TRUE(bucketer->BeginWindow().ok());
    ASSERT_TRUE(bucketer->BeginMicroBatch().ok());
    std::atomic<int> accepted = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        if (bucketer->MarkReady(0).ok()) ++accepted;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(accepted, 1);
    EXPECT_TRUE(bucketer->Finish().ok());
  });
}

TEST_P(BucketerWindowTest, DestructionBeforeTheLastMicroBatchLeavesTheGroupUsable) {
  Run(2, [](ProcessGroup& group) {
    {
      auto bucketer = MakeBucketer(group, EqualParameters(2, {4}));
      ASSERT_TRUE(bucketer->BeginWindow({.micro_batches = 2}).ok());
      ASSERT_TRUE(MicroBatch(*bucketer, 2, 1).ok());
    }
    EXPECT_TRUE(group.Barrier().Wait().ok());
  });
}

TEST_P(BucketerWindowTest, TwoBucketersShareAGroupInTurns) {
  Run(2, [](ProcessGroup& group) {
    auto first = MakeBucketer(group, EqualParameters(2, {4}));
    auto second = MakeBucketer(group, EqualParameters(3, {2}, DataType::kFloat64));
    for (int step = 0; step < 2; ++step) {
      ASSERT_TRUE(Step(*first, 2, {1}).ok());
      ASSERT_TRUE(Step(*second, 3, {2}).ok());
    }
    EXPECT_THAT(Values(first->gradient(0)), Each(1.0));
    EXPECT_THAT(Values(second->gradient(0)), Each(2.0));
  });
}

}  // namespace
}  // namespace tutti::testing
