#include "src/ddp/window.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/ddp/bucketer_test.h"

namespace tutti::testing {
namespace {

using ::testing::ElementsAre;

constexpr auto kOutOfOrder = absl::StatusCode::kFailedPrecondition;

class WindowTest : public ::testing::Test {
 protected:
  // Buckets: {2}, {1, 0}.
  const BucketPlan plan_ = *MakeBucketPlan({{DataType::kFloat32, 2}, {DataType::kFloat32, 2}, {DataType::kFloat32, 4}},
                                           {.bucket_bytes = 16, .first_bucket_bytes = 16, .accumulate_in_fp32 = false});
  const std::vector<std::string> names_ = {"a", "b", "c"};
  Window window_{plan_, names_};

  absl::Status Ready(int parameter, absl::Duration now = absl::ZeroDuration()) {
    absl::Status status = window_.Mark(parameter);
    if (status.ok()) window_.Complete(parameter, now);
    return status;
  }
};

TEST_F(WindowTest, CountsPendingMicroBatchesUntilItEnds) {
  EXPECT_EQ(window_.pending_micro_batches(), 0);
  window_.Begin(2);
  EXPECT_EQ(window_.pending_micro_batches(), 2);
  ASSERT_TRUE(window_.BeginMicroBatch().ok());
  EXPECT_EQ(window_.pending_micro_batches(), 2);  // one running, one not begun
  ASSERT_TRUE(window_.BeginMicroBatch().ok());
  EXPECT_EQ(window_.pending_micro_batches(), 1);
  ASSERT_TRUE(window_.BeginFinish().ok());
  EXPECT_EQ(window_.pending_micro_batches(), 1);
  window_.End();
  EXPECT_EQ(window_.pending_micro_batches(), 0);
}

TEST_F(WindowTest, BucketsBecomeReadyInPlanOrderInTheLastMicroBatchOnly) {
  window_.Begin(2);
  ASSERT_TRUE(window_.BeginMicroBatch().ok());
  for (const int p : {2, 1, 0}) ASSERT_TRUE(Ready(p).ok());
  EXPECT_EQ(window_.ready_buckets(), 0);
  ASSERT_TRUE(window_.BeginMicroBatch().ok());
  ASSERT_TRUE(Ready(0, absl::Seconds(1)).ok());
  ASSERT_TRUE(Ready(1, absl::Seconds(2)).ok());
  EXPECT_EQ(window_.ready_buckets(), 0);  // the second bucket waits for the first
  ASSERT_TRUE(window_.Mark(2).ok());
  EXPECT_EQ(window_.ready_buckets(), 0);
  window_.Complete(2, absl::Seconds(3));
  EXPECT_EQ(window_.ready_buckets(), 2);
  EXPECT_EQ(window_.ready_at(0), absl::Seconds(3));
  EXPECT_EQ(window_.ready_at(1), absl::Seconds(2));
}

TEST_F(WindowTest, OutOfOrderCallsSayWhatWasExpectedAndChangeNothing) {
  EXPECT_THAT(window_.BeginMicroBatch(), IsStatus(kOutOfOrder, "no window is open; expected BeginWindow"));
  EXPECT_THAT(window_.Mark(1), IsStatus(kOutOfOrder, "MarkReady of parameter 1 \"b\": no window is open"));
  EXPECT_THAT(window_.BeginFinish(), IsStatus(kOutOfOrder, "Finish: no window is open"));
  window_.Begin(2);
  EXPECT_THAT(window_.CheckBegin(1), IsStatus(kOutOfOrder, "BeginWindow: 0 of 2 micro-batches have begun"));
  EXPECT_THAT(window_.Mark(1), IsStatus(kOutOfOrder, "expected BeginMicroBatch"));
  ASSERT_TRUE(window_.BeginMicroBatch().ok());
  EXPECT_THAT(window_.BeginFinish(), IsStatus(kOutOfOrder, "Finish: 1 of 2 micro-batches have begun"));
  ASSERT_TRUE(window_.BeginMicroBatch().ok());
  EXPECT_THAT(window_.BeginMicroBatch(), IsStatus(kOutOfOrder, "2 of 2 micro-batches have begun"));
  for (const int p : {2, 1, 0}) ASSERT_TRUE(Ready(p).ok());
  EXPECT_EQ(window_.ready_buckets(), 2);
  ASSERT_TRUE(window_.BeginFinish().ok());
  EXPECT_THAT(window_.Mark(1), IsStatus(kOutOfOrder, "being finished"));
}

TEST_F(WindowTest, AParameterIsMarkedOnceInEachMicroBatch) {
  window_.Begin(2);
  ASSERT_TRUE(window_.BeginMicroBatch().ok());
  ASSERT_TRUE(Ready(1).ok());
  EXPECT_THAT(Ready(1), IsStatus(kOutOfOrder, "parameter 1 \"b\" is marked for the second time in micro-batch 1 of 2"));
  ASSERT_TRUE(window_.BeginMicroBatch().ok());
  EXPECT_TRUE(Ready(1).ok());
}

TEST_F(WindowTest, UnknownParametersAreRefused) {
  window_.Begin(1);
  ASSERT_TRUE(window_.BeginMicroBatch().ok());
  EXPECT_THAT(window_.Mark(3), IsStatus(absl::StatusCode::kInvalidArgument, "no parameter 3 among 3"));
  EXPECT_THAT(window_.Mark(-1), IsStatus(absl::StatusCode::kInvalidArgument, "no parameter -1"));
}

TEST_F(WindowTest, AWindowHasAMicroBatch) {
  EXPECT_THAT(window_.CheckBegin(0), IsStatus(absl::StatusCode::kInvalidArgument, "not 0"));
  EXPECT_THAT(window_.CheckBegin(-3), IsStatus(absl::StatusCode::kInvalidArgument, "not -3"));
}

TEST_F(WindowTest, UnmarkedMeansInNoMicroBatch) {
  window_.Begin(2);
  ASSERT_TRUE(window_.BeginMicroBatch().ok());
  ASSERT_TRUE(Ready(0).ok());
  ASSERT_TRUE(window_.BeginMicroBatch().ok());
  ASSERT_TRUE(Ready(2).ok());
  ASSERT_TRUE(window_.BeginFinish().ok());
  EXPECT_THAT(window_.Unmarked(), ElementsAre(1));
  EXPECT_EQ(window_.ready_buckets(), 1);
  window_.CompleteRest(absl::Seconds(5));
  EXPECT_EQ(window_.ready_buckets(), 2);
  EXPECT_EQ(window_.ready_at(1), absl::Seconds(5));
}

}  // namespace
}  // namespace tutti::testing
