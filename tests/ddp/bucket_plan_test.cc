#include "src/ddp/bucket_plan.h"

#include <algorithm>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/ddp/bucketer_test.h"

namespace tutti::testing {
namespace {

using ::testing::ElementsAre;

constexpr size_t kMiB = size_t{1} << 20;

BucketPlan Plan(const std::vector<PlannedTensor>& tensors, PlanOptions options) {
  auto plan = MakeBucketPlan(tensors, options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : BucketPlan();
}

std::vector<size_t> Counts(const BucketPlan& plan) {
  std::vector<size_t> counts;
  for (const auto& bucket : plan.buckets) counts.push_back(bucket.count);
  return counts;
}

PlannedTensor Floats(size_t count) { return {.type = DataType::kFloat32, .count = count}; }

// What every plan promises, for any tensors and caps.
void CheckInvariants(const BucketPlan& plan, const std::vector<PlannedTensor>& tensors, const PlanOptions& options) {
  ASSERT_EQ(plan.views.size(), tensors.size());
  std::vector<size_t> covered(plan.arenas.size());
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    const auto& bucket = plan.buckets[b];
    EXPECT_GT(bucket.count, 0u);
    EXPECT_FALSE(bucket.parameters.empty());
    EXPECT_LE(bucket.count * ByteSize(plan.arenas[bucket.arena].reduce_as), options.bucket_bytes);
    // Buckets of an arena follow one another without gaps.
    EXPECT_EQ(bucket.offset, covered[bucket.arena]);
    covered[bucket.arena] += bucket.count;
    for (const int p : bucket.parameters) {
      EXPECT_EQ(plan.views[p].arena, bucket.arena);
      EXPECT_LE(plan.views[p].first_bucket, static_cast<int>(b));
      EXPECT_GT(plan.views[p].end_bucket, static_cast<int>(b));
      if (bucket.parameters.size() > 1) {
        EXPECT_EQ(plan.views[p].end_bucket - plan.views[p].first_bucket, 1);
      }
    }
    if (b > 0) {
      EXPECT_GE(plan.buckets[b - 1].parameters.back(), bucket.parameters.back());
    }
  }
  for (size_t a = 0; a < plan.arenas.size(); ++a) EXPECT_EQ(covered[a], plan.arenas[a].count);
  for (size_t p = 0; p < tensors.size(); ++p) {
    const auto& view = plan.views[p];
    EXPECT_EQ(plan.arenas[view.arena].type, tensors[p].type);
    EXPECT_EQ(view.count, tensors[p].count);
    size_t in_buckets = 0;
    for (int b = view.first_bucket; b < view.end_bucket; ++b) {
      const auto& bucket = plan.buckets[b];
      const size_t begin = std::max(view.offset, bucket.offset);
      in_buckets += std::min(view.offset + view.count, bucket.offset + bucket.count) - begin;
    }
    EXPECT_EQ(in_buckets, view.count);
  }
}

TEST(BucketPlan, TenThousandTinyParametersFillBucketsToTheCap) {
  const std::vector<PlannedTensor> tensors(10000, Floats(4));
  EXPECT_THAT(Counts(Plan(tensors, {25 * kMiB, kMiB, false})), ElementsAre(40000));
  const std::vector<size_t> counts = Counts(Plan(tensors, {1024, kMiB, false}));
  EXPECT_EQ(counts.size(), 157u);
  EXPECT_EQ(counts.front(), 256u);
  EXPECT_EQ(counts.back(), 64u);  // 10000 - 156 * 64 = 16 parameters
}

TEST(BucketPlan, ATensorAboveTheCapIsCutIntoBucketsOfItsOwn) {
  const std::vector<PlannedTensor> tensors = {Floats(10), Floats(10'000'000), Floats(20)};
  const BucketPlan plan = Plan(tensors, {25 * kMiB, kMiB, false});
  EXPECT_THAT(Counts(plan), ElementsAre(20, 6553600, 3446400, 10));
  EXPECT_EQ(plan.views[1].first_bucket, 1);
  EXPECT_EQ(plan.views[1].end_bucket, 3);
  CheckInvariants(plan, tensors, {25 * kMiB, kMiB, false});
}

TEST(BucketPlan, GoesFromTheLastRegisteredToTheFirst) {
  const BucketPlan plan = Plan({Floats(1), Floats(2), Floats(3)}, {16, 16, false});
  EXPECT_THAT(Counts(plan), ElementsAre(3, 3));
  EXPECT_THAT(plan.buckets[0].parameters, ElementsAre(2));
  EXPECT_THAT(plan.buckets[1].parameters, ElementsAre(1, 0));
  EXPECT_EQ(plan.views[1].offset, 3u);
  EXPECT_EQ(plan.views[0].offset, 5u);
}

TEST(BucketPlan, TheFirstBucketIsSmallUnlessOneParameterIsLarger) {
  EXPECT_THAT(Counts(Plan({Floats(4), Floats(4), Floats(2), Floats(2)}, {64, 16, false})), ElementsAre(4, 8));
  EXPECT_THAT(Counts(Plan({Floats(4), Floats(4), Floats(9)}, {64, 16, false})), ElementsAre(9, 8));
  EXPECT_THAT(Counts(Plan({Floats(4), Floats(4)}, {64, 0, false})), ElementsAre(4, 4));
  EXPECT_THAT(Counts(Plan({Floats(4), Floats(4)}, {16, 64, false})), ElementsAre(4, 4));
}

TEST(BucketPlan, TypesNeverShareABucketAndCompleteInTheOrderOfTheWalk) {
  const std::vector<PlannedTensor> tensors = {{DataType::kFloat32, 1},
                                              {DataType::kFloat16, 2},
                                              {DataType::kFloat32, 3},
                                              {DataType::kBFloat16, 4},
                                              {DataType::kFloat64, 5}};
  const BucketPlan plan = Plan(tensors, {1024, 1024, false});
  std::vector<DataType> types;
  for (const auto& bucket : plan.buckets) types.push_back(plan.arenas[bucket.arena].type);
  // float32 is complete only with parameter 0.
  EXPECT_THAT(types, ElementsAre(DataType::kFloat64, DataType::kBFloat16, DataType::kFloat16, DataType::kFloat32));
  CheckInvariants(plan, tensors, {1024, 1024, false});
}

TEST(BucketPlan, SixteenBitTypesCountAsFp32IfTheyAreReducedSo) {
  const std::vector<PlannedTensor> tensors(4, {DataType::kFloat16, 4});
  EXPECT_THAT(Counts(Plan(tensors, {16, 16, false})), ElementsAre(8, 8));
  const BucketPlan wide = Plan(tensors, {16, 16, true});
  EXPECT_THAT(Counts(wide), ElementsAre(4, 4, 4, 4));
  EXPECT_EQ(wide.arenas[0].reduce_as, DataType::kFloat32);
}

TEST(BucketPlan, ParametersWithoutElementsHaveNoBucket) {
  const BucketPlan plan = Plan({Floats(0), Floats(2), Floats(0)}, {1024, 1024, false});
  EXPECT_THAT(Counts(plan), ElementsAre(2));
  EXPECT_EQ(plan.views[0].end_bucket, 0);
  EXPECT_THAT(Counts(Plan({Floats(0)}, {1024, 1024, false})), ElementsAre());
  EXPECT_THAT(Counts(Plan({}, {1024, 1024, false})), ElementsAre());
}

TEST(BucketPlan, ACapBelowOneElementIsRefused) {
  for (const size_t cap : {0, 1, 3}) {
    EXPECT_THAT(MakeBucketPlan({{DataType::kFloat32, 1}}, {cap, cap, false}).status(),
                IsStatus(absl::StatusCode::kInvalidArgument, "less than one float32 element (4 bytes)"));
  }
  EXPECT_TRUE(MakeBucketPlan({{DataType::kFloat16, 1}}, {2, 2, false}).ok());
  EXPECT_THAT(MakeBucketPlan({{DataType::kFloat16, 1}}, {2, 2, true}).status(),
              IsStatus(absl::StatusCode::kInvalidArgument, "bucket_bytes is 2"));
  EXPECT_THAT(Counts(Plan({Floats(3)}, {4, 4, false})), ElementsAre(1, 1, 1));
}

TEST(BucketPlan, KeepsItsPromisesForRandomModels) {
  constexpr DataType kTypes[] = {DataType::kFloat16, DataType::kBFloat16, DataType::kFloat32, DataType::kFloat64};
  for (int seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
    std::vector<PlannedTensor> tensors(below(40));
    for (auto& tensor : tensors) tensor = {.type = kTypes[below(4)], .count = below(4) == 0 ? below(200) : below(8)};
    const PlanOptions options = {8 + below(400), below(200), below(2) == 0};
    CheckInvariants(Plan(tensors, options), tensors, options);
  }
}

}  // namespace
}  // namespace tutti::testing
