// Thousands of ranks. What sends a message per block and rank, 16.7 million at n = 4096, is verified there in one
// variant of each; n = 1000 and 1024 cover all. Under a sanitizer, an eighth of the ranks.

#include <vector>

#include "gtest/gtest.h"
#include "tests/schedule/schedules.h"

namespace tutti {
namespace {

constexpr int Ranks(int count) { return count / TUTTI_SCALE_DIVISOR; }

bool SendsAMessagePerBlock(const ScheduleKey& key) {
  return key.collective == Collective::kReduceScatter || key.collective == Collective::kAllGather;
}

void ExpectRight(const ScheduleKey& key) {
  const absl::Status status = VerifyKey(key);
  EXPECT_TRUE(status.ok()) << ToString(key) << ": " << status;
}

TEST(ScaleTest, EveryScheduleIsRightFor1000Ranks) {
  for (const ScheduleKey& key : AllKeys(Ranks(1000))) ExpectRight(key);
}

TEST(ScaleTest, EveryScheduleIsRightFor1024Ranks) {
  for (const ScheduleKey& key : AllKeys(Ranks(1024))) ExpectRight(key);
}

TEST(ScaleTest, LogarithmicSchedulesAreRightFor4095And4096Ranks) {
  for (const int size : {Ranks(4095), Ranks(4096)}) {
    for (const ScheduleKey& key : AllKeys(size)) {
      if (!SendsAMessagePerBlock(key)) ExpectRight(key);
    }
  }
}

TEST(ScaleTest, ReduceScatterIsRightFor4095Ranks) {
  ExpectRight({Collective::kReduceScatter, Algorithm::kHalving, Ranks(4095)});
}

TEST(ScaleTest, AllGatherIsRightFor4096Ranks) { ExpectRight({Collective::kAllGather, Algorithm::kBruck, Ranks(4096)}); }

TEST(ScaleTest, EveryCollectiveHasAnAlgorithmFor4096Ranks) {
  for (const Collective collective : {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather,
                                      Collective::kBroadcast, Collective::kBarrier}) {
    int found = 0;
    for (const Algorithm algorithm : AlgorithmsOf(collective))
      found += BuildSchedule({collective, algorithm, 4096}).ok();
    EXPECT_GE(found, 1) << Name(collective);
  }
}

}  // namespace
}  // namespace tutti
