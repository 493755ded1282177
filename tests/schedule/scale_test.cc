// Thousands of ranks. What sends a message per block and rank, 16.7 million at n = 4096, is verified there in one
// variant of each; n = 1000 and 1024 cover all. Under a sanitizer, an eighth of the ranks.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "gtest/gtest.h"
#include "tests/schedule/schedules.h"

namespace tutti {
namespace {

constexpr int Ranks(int count) { return count / TUTTI_SCALE_DIVISOR; }

bool SendsAMessagePerBlock(const ScheduleKey& key) {
  return key.collective == Collective::kReduceScatter || key.collective == Collective::kAllGather ||
         key.collective == Collective::kAllToAll || key.algorithm == Algorithm::kRing;
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

TEST(ScaleTest, LogarithmicSchedulesAreRightFor1023And1025Ranks) {
  for (const int size : {Ranks(1023), Ranks(1025)}) {
    for (const ScheduleKey& key : AllKeys(size)) {
      if (!SendsAMessagePerBlock(key) && key.algorithm != Algorithm::kHierarchical) ExpectRight(key);
    }
  }
}

TEST(ScaleTest, LogarithmicSchedulesAreRightFor4095And4096Ranks) {
  for (const int size : {Ranks(4095), Ranks(4096)}) {
    for (const ScheduleKey& key : AllKeys(size)) {
      if (!SendsAMessagePerBlock(key) && key.algorithm != Algorithm::kHierarchical) ExpectRight(key);
    }
  }
}

TEST(ScaleTest, ReduceScatterIsRightFor4095Ranks) {
  ExpectRight({Collective::kReduceScatter, Algorithm::kHalving, Ranks(4095)});
}

TEST(ScaleTest, AllGatherIsRightFor4096Ranks) { ExpectRight({Collective::kAllGather, Algorithm::kBruck, Ranks(4096)}); }

TEST(ScaleTest, HierarchicalAllReduceIsRightFor512HostsOf8) {
  ExpectRight({Collective::kAllReduce, Algorithm::kHierarchical, Ranks(4096), 0, 0, /*wide=*/true, 8});
}

// Of the busiest of the ranks looked at; 0 if there is no such schedule.
size_t PeersAt(const ScheduleKey& key) {
  size_t most = 0;
  // Where each rank has thousands of steps, all do the same.
  const int stride = SendsAMessagePerBlock(key) ? 91 : 1;
  for (int rank = 0; rank < key.size; rank += stride) {
    ScheduleKey of_rank = key;
    of_rank.rank = rank;
    const absl::StatusOr<Schedule> schedule = BuildSchedule(of_rank);
    if (!schedule.ok()) return 0;
    absl::flat_hash_set<int> peers;
    for (const Step& step : schedule->steps) {
      if (step.peer >= 0) peers.insert(step.peer);
    }
    most = std::max(most, peers.size());
  }
  return most;
}

TEST(ScaleTest, EveryCollectiveHasAnAlgorithmWithFewPeersFor4096Ranks) {
  constexpr int kSize = 4096;
  for (const Collective collective : kCollectives) {
    for (const int root : {0, 1234, kSize - 1}) {
      if (root != 0 && !HasRoot(collective)) continue;
      size_t fewest = SIZE_MAX;
      for (const Algorithm algorithm : AlgorithmsOf(collective)) {
        if (algorithm == Algorithm::kRing) continue;  // few peers, but thousands of messages deep
        const size_t peers = PeersAt({collective, algorithm, kSize, 0, root});
        if (peers != 0) fewest = std::min(fewest, peers);
      }
      EXPECT_LE(fewest, 24u) << Name(collective) << ", root " << root;
    }
  }
}

}  // namespace
}  // namespace tutti
