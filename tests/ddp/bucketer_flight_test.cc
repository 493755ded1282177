// Operations in flight. These tests hold and count the collectives of the fake group.
#include <thread>

#include "absl/synchronization/notification.h"
#include "tests/ddp/bucketer_test.h"
#include "tests/ddp/elements.h"
#include "tests/ddp/fake_group.h"

namespace tutti::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

class BucketerFlightTest : public ::testing::Test {
 protected:
  // Creates a bucketer of `count` parameters of 4 floats, one in each bucket, on both ranks.
  void Create(int count, BucketerOptions options = {}) {
    options.bucket_bytes = 16;
    bucketers_.resize(2);
    OnAllRanks(ranks_, [&](ProcessGroup& group) {
      bucketers_[group.rank()] = MakeBucketer(group, EqualParameters(count, {4}), options);
    });
    created_ = world_.calls(0);
  }
  int launched(int rank) const { return world_.calls(rank) - created_; }

  FakeWorld world_{2};
  Ranks ranks_ = [this] {
    Ranks ranks;
    for (int rank = 0; rank < 2; ++rank) ranks.groups.push_back(world_.MakeGroup(rank));
    return ranks;
  }();
  std::vector<std::unique_ptr<GradientBucketer>> bucketers_;
  int created_ = 0;
};

TEST_F(BucketerFlightTest, BucketsAreLaunchedFromMarkReadyOfTheLastMicroBatchInPlanOrder) {
  Create(3);
  GradientBucketer& bucketer = *bucketers_[0];
  ASSERT_TRUE(bucketer.BeginWindow({.micro_batches = 2}).ok());
  ASSERT_TRUE(MicroBatch(bucketer, 3, 1).ok());
  EXPECT_EQ(launched(0), 0);
  ASSERT_TRUE(bucketer.BeginMicroBatch().ok());
  ASSERT_TRUE(bucketer.MarkReady(1).ok());
  EXPECT_EQ(launched(0), 0);  // bucket {2} comes first
  ASSERT_TRUE(bucketer.MarkReady(2).ok());
  EXPECT_EQ(launched(0), 2);
  ASSERT_TRUE(bucketer.MarkReady(0).ok());
  EXPECT_EQ(launched(0), 3);
}

TEST_F(BucketerFlightTest, AThreadThatFindsAnotherOneLaunchingLeavesItsBucketToThatOne) {
  Create(2);
  absl::Notification launching, marked;
  world_.OnAllReduce([&](int) {
    if (launching.HasBeenNotified()) return;
    launching.Notify();
    EXPECT_TRUE(marked.WaitForNotificationWithTimeout(absl::Seconds(20)));
  });
  GradientBucketer& bucketer = *bucketers_[0];
  ASSERT_TRUE(bucketer.BeginWindow().ok());
  ASSERT_TRUE(bucketer.BeginMicroBatch().ok());
  std::thread launcher([&] { EXPECT_TRUE(bucketer.MarkReady(1).ok()); });
  launching.WaitForNotification();
  EXPECT_TRUE(bucketer.MarkReady(0).ok());
  EXPECT_EQ(launched(0), 0);
  marked.Notify();
  launcher.join();
  EXPECT_EQ(launched(0), 2);
}

TEST_F(BucketerFlightTest, MarkReadyDoesNotWaitForTheWeightsOfOtherRanks) {
  Create(2, {.scale = ScaleMode::kWeighted});
  // Rank 1 has not begun: its weights are unknown while rank 0 makes all of its gradients ready.
  ASSERT_TRUE(bucketers_[0]->BeginWindow({.micro_batches = 1, .weights = {2}}).ok());
  ASSERT_TRUE(MicroBatch(*bucketers_[0], 2, 6).ok());
  EXPECT_EQ(launched(0), 1);
  std::thread other([this] { EXPECT_TRUE(Step(*bucketers_[1], 2, {2}, {2}).ok()); });
  const auto report = bucketers_[0]->Finish();
  other.join();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(launched(0), 3);
  EXPECT_THAT(Values(bucketers_[0]->gradient(0)), Each(2.0));  // (6 + 2) / 4
}

TEST_F(BucketerFlightTest, ResultsSeenByALaterMarkReadyAreNotExposed) {
  Create(2);
  OnAllRanks(ranks_, [&](ProcessGroup& group) {
    GradientBucketer& bucketer = *bucketers_[group.rank()];
    ASSERT_TRUE(bucketer.BeginWindow().ok());
    ASSERT_TRUE(bucketer.BeginMicroBatch().ok());
    ASSERT_TRUE(bucketer.MarkReady(1).ok());
    ASSERT_TRUE(group.Barrier().Wait().ok());  // runs after the first bucket
    const absl::Time before = absl::Now();
    ASSERT_TRUE(bucketer.MarkReady(0).ok());
    const auto report = bucketer.Finish();
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_LE(report->buckets[0].finished, report->buckets[1].finished);
    EXPECT_LE(report->exposed, absl::Now() - before);
  });
}

TEST_F(BucketerFlightTest, DestructionWithAllReducesInFlightEndsThemAndTellsTheOthers) {
  Create(2);
  world_.Hold();
  ASSERT_TRUE(bucketers_[0]->BeginWindow().ok());
  ASSERT_TRUE(bucketers_[1]->BeginWindow().ok());
  ASSERT_TRUE(bucketers_[0]->BeginMicroBatch().ok());
  ASSERT_TRUE(MicroBatch(*bucketers_[1], 2, 1).ok());
  ASSERT_TRUE(bucketers_[0]->MarkReady(1).ok());
  bucketers_[0].reset();
  EXPECT_THAT(bucketers_[1]->Finish().status(),
              IsStatus(absl::StatusCode::kAborted, "destroyed while its all-reduces"));
}

TEST_F(BucketerFlightTest, DestructionWithTheWeightsInFlightEndsThem) {
  Create(2, {.scale = ScaleMode::kWeighted});
  ASSERT_TRUE(bucketers_[0]->BeginWindow({.micro_batches = 1, .weights = {2}}).ok());
  bucketers_[0].reset();
  EXPECT_THAT(world_.error(), IsStatus(absl::StatusCode::kAborted, "rank 0"));
}

TEST_F(BucketerFlightTest, DestructionAfterTheLastAllReduceIsSilent) {
  Create(2);
  OnAllRanks(ranks_, [&](ProcessGroup& group) {
    ASSERT_TRUE(bucketers_[group.rank()]->BeginWindow().ok());
    ASSERT_TRUE(MicroBatch(*bucketers_[group.rank()], 2, 1).ok());
    ASSERT_TRUE(group.Barrier().Wait().ok());  // runs after both buckets
    bucketers_[group.rank()].reset();
    EXPECT_TRUE(group.Barrier().Wait().ok());
  });
}

TEST_F(BucketerFlightTest, AnErrorOfTheGroupNamesBucketAndParameterAndIsFinal) {
  Create(2);
  world_.Hold();
  ASSERT_TRUE(bucketers_[0]->BeginWindow().ok());
  ASSERT_TRUE(MicroBatch(*bucketers_[0], 2, 1).ok());
  ranks_.groups[1]->Abort(absl::InternalError("out of patience"));
  const absl::Status status = bucketers_[0]->Finish().status();
  EXPECT_THAT(status, IsStatus(absl::StatusCode::kAborted, "gradient bucket 1 of 2 (from parameter 1 \"p1\" on)"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("out of patience"));
  EXPECT_THAT(bucketers_[0]->BeginWindow(), IsStatus(absl::StatusCode::kFailedPrecondition, "out of patience"));
}

TEST_F(BucketerFlightTest, ARankThatNeverComesIsNamedWhenTheTimeIsUp) {
  Create(2, {.timeout = absl::Milliseconds(50)});
  const absl::Status status = Step(*bucketers_[0], 2, {1}).status();
  EXPECT_THAT(status, IsStatus(absl::StatusCode::kDeadlineExceeded, "rank 1"));
}

TEST_F(BucketerFlightTest, ABrokenGroupMakesNoBucketer) {
  ranks_.groups[1]->Abort(absl::InternalError("over"));
  EXPECT_THAT(GradientBucketer::Create(*ranks_.groups[0], EqualParameters(1, {4})).status(),
              IsStatus(absl::StatusCode::kAborted, "over"));
}

TEST_F(BucketerFlightTest, ThreadsThatMarkAtOnceLaunchInTheSameOrderOnAllRanks) {
  constexpr int kParameters = 48;
  Create(kParameters, {.scale = ScaleMode::kSum});
  // Each bucket has its own values: a wrong order would mix them up.
  for (int step = 0; step < 10; ++step) {
    OnAllRanks(ranks_, [&](ProcessGroup& group) {
      GradientBucketer& bucketer = *bucketers_[group.rank()];
      ASSERT_TRUE(bucketer.BeginWindow().ok());
      ASSERT_TRUE(bucketer.BeginMicroBatch().ok());
      std::vector<std::thread> threads;
      for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&bucketer, t, forward = group.rank() == 0] {
          for (int k = t; k < kParameters; k += 4) {
            const int p = forward ? k : kParameters - 1 - k;
            AddTo(bucketer.gradient(p), p);
            EXPECT_TRUE(bucketer.MarkReady(p).ok());
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      ASSERT_TRUE(bucketer.Finish().ok());
      for (int p = 0; p < kParameters; ++p) EXPECT_THAT(Values(bucketer.gradient(p)), Each(2.0 * p));
    });
  }
}

}  // namespace
}  // namespace tutti::testing
