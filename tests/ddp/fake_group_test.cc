// The oracle of the other tests, and its conversions.
#include "tests/ddp/fake_group.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/ddp/bucketer_test.h"
#include "tests/ddp/elements.h"

namespace tutti::testing {
namespace {

using ::testing::ElementsAre;

TEST(Elements, SixteenBitFormatsRoundToNearestEven) {
  const struct {
    DataType type;
    double value;
    uint16_t bits;
  } kCases[] = {{DataType::kFloat16, 1.0, 0x3c00},
                {DataType::kFloat16, -2.0, 0xc000},
                {DataType::kFloat16, 65504, 0x7bff},
                {DataType::kFloat16, 65519.9, 0x7bff},
                {DataType::kFloat16, 65520, 0x7c00},
                {DataType::kFloat16, 1e300, 0x7c00},
                {DataType::kFloat16, std::ldexp(1, -24), 0x0001},
                {DataType::kFloat16, std::ldexp(1, -25), 0x0000},
                {DataType::kFloat16, std::ldexp(3, -25), 0x0002},
                {DataType::kFloat16, 1 + std::ldexp(1, -11), 0x3c00},
                {DataType::kFloat16, 1 + std::ldexp(3, -11), 0x3c02},
                {DataType::kBFloat16, 1.0, 0x3f80},
                {DataType::kBFloat16, 257, 0x4380},
                {DataType::kBFloat16, 259, 0x4382},
                {DataType::kBFloat16, -0.0, 0x8000}};
  for (const auto& c : kCases) {
    uint16_t bits = 0xffff;
    Store(c.type, &bits, 0, c.value);
    EXPECT_EQ(bits, c.bits) << Name(c.type) << " of " << c.value;
  }
}

TEST(Elements, EverySixteenBitPatternSurvivesARoundTrip) {
  for (const DataType type : {DataType::kFloat16, DataType::kBFloat16}) {
    for (int bits = 0; bits < 0x10000; ++bits) {
      const auto pattern = static_cast<uint16_t>(bits);
      const double value = Load(type, &pattern, 0);
      uint16_t again = 0;
      Store(type, &again, 0, value);
      if (!std::isnan(value)) {
        ASSERT_EQ(again, pattern) << Name(type);
      }
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(Load(type, &again, 0))) << Name(type);
      }
    }
  }
}

TEST(FakeGroup, SumsGathersAndBroadcasts) {
  FakeWorld world(3);
  const Ranks ranks = {.world = nullptr, .groups = [&] {
                         std::vector<std::unique_ptr<ProcessGroup>> groups;
                         for (int rank = 0; rank < 3; ++rank) groups.push_back(world.MakeGroup(rank));
                         return groups;
                       }()};
  OnAllRanks(ranks, [](ProcessGroup& group) {
    std::vector<float> sum = {static_cast<float>(group.rank()), 10};
    EXPECT_TRUE(group.AllReduce(absl::MakeSpan(sum), {.divisor = 2}).Wait().ok());
    EXPECT_THAT(sum, ElementsAre(1.5f, 15.0f));
    const std::vector<int> mine = {group.rank()};
    std::vector<int> all(3);
    EXPECT_TRUE(group.AllGather(absl::MakeConstSpan(mine), absl::MakeSpan(all)).Wait().ok());
    EXPECT_THAT(all, ElementsAre(0, 1, 2));
    std::vector<int> word = mine;
    EXPECT_TRUE(group.Broadcast(absl::MakeSpan(word), 2).Wait().ok());
    EXPECT_THAT(word, ElementsAre(2));
    EXPECT_TRUE(group.Barrier().Wait().ok());
  });
}

TEST(FakeGroup, DisagreementReachesEveryRankAndIsFinal) {
  FakeWorld world(2);
  auto first = world.MakeGroup(0), second = world.MakeGroup(1);
  std::vector<float> x(4);
  Work a = first->AllReduce(absl::MakeSpan(x));
  Work b = second->Barrier();
  EXPECT_THAT(a.Wait(), IsStatus(absl::StatusCode::kFailedPrecondition, "rank 1 calls barrier"));
  EXPECT_THAT(b.Wait(), IsStatus(absl::StatusCode::kFailedPrecondition, "all-reduce of float32[4]"));
  EXPECT_FALSE(first->Barrier().Wait().ok());
}

TEST(FakeGroup, ARankThatDoesNotComeIsNamed) {
  FakeWorld world(2, absl::Milliseconds(20));
  auto group = world.MakeGroup(0);
  EXPECT_THAT(group->Barrier().Wait(), IsStatus(absl::StatusCode::kDeadlineExceeded, "rank 1"));
}

TEST(FakeGroup, HeldCollectivesCompleteAfterRelease) {
  FakeWorld world(1);
  auto group = world.MakeGroup(0);
  world.Hold();
  Work work = group->Barrier();
  EXPECT_FALSE(work.Done());
  world.Release();
  EXPECT_TRUE(work.Wait().ok());
  EXPECT_TRUE(work.Done());
}

}  // namespace
}  // namespace tutti::testing
