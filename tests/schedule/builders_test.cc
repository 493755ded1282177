#include "src/schedule/builders.h"

#include <bit>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/schedule/schedules.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

TEST(BuildScheduleTest, EveryScheduleIsRightForOneTo64Ranks) {
  for (int size = 1; size <= 64; ++size) {
    for (const ScheduleKey& key : AllKeys(size)) {
      const absl::Status status = VerifyKey(key);
      EXPECT_TRUE(status.ok()) << ToString(key) << ": " << status;
    }
  }
}

TEST(BuildScheduleTest, EveryRankCanBeTheRoot) {
  for (int size = 1; size <= 17; ++size) {
    for (ScheduleKey key : AllKeys(size)) {
      if (!HasRoot(key.collective) || key.root != 0) continue;
      for (; key.root < size; ++key.root) {
        const absl::Status status = VerifyKey(key);
        EXPECT_TRUE(status.ok()) << ToString(key) << ": " << status;
      }
    }
  }
}

TEST(BuildScheduleTest, PairsSendAndReceive) {
  const std::vector<Schedule> schedules = {Build({Collective::kSend, Algorithm::kPair, 4, 0, 2}, 0),
                                           Build({Collective::kRecv, Algorithm::kPair, 4, 0, 3}, 1),
                                           Build({Collective::kRecv, Algorithm::kPair, 4, 0, 0}, 2),
                                           Build({Collective::kSend, Algorithm::kPair, 4, 0, 1}, 3)};
  EXPECT_EQ(Verify(schedules), absl::OkStatus());
}

TEST(BuildScheduleTest, OneRankSendsNothing) {
  for (const ScheduleKey& key : AllKeys(1)) {
    ScheduleCounts counts;
    ASSERT_EQ(VerifyKey(key, &counts), absl::OkStatus()) << ToString(key);
    EXPECT_EQ(counts.messages_sent, 0u) << ToString(key);
    EXPECT_EQ(counts.depth, 0u) << ToString(key);
  }
}

struct Locked {
  ScheduleKey key;
  ScheduleCounts counts;  // messages, slices, peers, depth
};

// A change here is a change of what goes over the wire.
TEST(BuildScheduleTest, CountsAreAsExpected) {
  using enum Collective;
  using A = Algorithm;
  const Locked kLocked[] = {
      // As many messages one after another as the largest offset has bits set: at most ceil(log2 n).
      {{kAllReduce, A::kGather, 8}, {7, 7, 5, 3}},
      {{kAllReduce, A::kGather, 5}, {4, 4, 4, 2}},
      {{kAllReduce, A::kGather, 64}, {63, 63, 11, 6}},
      {{kAllReduce, A::kDirect, 5}, {8, 8, 4, 2}},
      {{kAllReduce, A::kDirect, 16}, {30, 30, 15, 2}},
      {{kAllReduce, A::kDoubling, 8}, {3, 3, 3, 3}},
      {{kAllReduce, A::kDoubling, 7}, {3, 3, 3, 4}},
      {{kAllReduce, A::kDoubling, 64}, {6, 6, 6, 6}},
      {{kAllReduce, A::kHalving, 8}, {6, 14, 3, 6}},
      {{kAllReduce, A::kHalving, 7}, {5, 10, 3, 6}},
      {{kAllReduce, A::kHalving, 64}, {12, 126, 6, 12}},
      {{kReduceScatter, A::kHalving, 8}, {7, 7, 3, 3}},
      {{kReduceScatter, A::kHalving, 64}, {63, 63, 6, 6}},
      {{kReduceScatter, A::kDirect, 7}, {6, 6, 6, 1}},
      {{kAllGather, A::kBruck, 8}, {7, 7, 5, 3}},
      {{kAllGather, A::kDirect, 8}, {7, 7, 7, 1}},
      {{kBroadcast, A::kTree, 8}, {3, 3, 3, 3}},
      {{kBroadcast, A::kTree, 6}, {3, 3, 3, 2}},
      {{kAllReduce, A::kExchange, 5}, {4, 4, 4, 1}},
      {{kAllReduce, A::kQuadrupling, 16}, {6, 6, 6, 2}},
      {{kAllReduce, A::kQuadrupling, 8}, {4, 4, 4, 2}},
      {{kAllReduce, A::kQuadrupling, 17}, {7, 7, 7, 4}},
      {{kAllReduce, A::kHierarchical, 8, 0, 0, false, 4}, {8, 14, 4, 4}},
      {{kAllReduce, A::kHierarchical, 8, 0, 0, true, 2}, {8, 14, 4, 4}},
      {{kAllReduce, A::kHierarchical, 9, 0, 0, false, 3}, {10, 18, 4, 4}},
      {{kAllReduce, A::kRing, 5}, {8, 8, 2, 8}},
      {{kReduceScatter, A::kRing, 5}, {4, 4, 2, 4}},
      {{kAllGather, A::kRing, 5}, {4, 4, 2, 4}},
      {{kBroadcast, A::kDirect, 8}, {7, 7, 7, 2}},
      {{kReduce, A::kGather, 8}, {1, 1, 7, 1}},
      {{kReduce, A::kTree, 8}, {1, 1, 3, 3}},
      {{kReduce, A::kTree, 6, 0, 3}, {1, 1, 3, 3}},
      {{kReduce, A::kDirect, 8}, {8, 8, 7, 2}},
      {{kGather, A::kTree, 8}, {4, 4, 3, 3}},
      {{kGather, A::kDirect, 8}, {1, 1, 7, 1}},
      {{kScatter, A::kTree, 8}, {7, 7, 3, 3}},
      {{kScatter, A::kDirect, 8}, {7, 7, 7, 1}},
      {{kAllToAll, A::kBruck, 8}, {12, 12, 5, 3}},
      {{kAllToAll, A::kDirect, 8}, {7, 7, 7, 1}},
      {{kBarrier, A::kBruck, 8}, {3, 3, 5, 3}},
      {{kBarrier, A::kBruck, 5}, {3, 3, 4, 3}},
  };
  for (const Locked& locked : kLocked) {
    ScheduleCounts counts;
    ASSERT_EQ(VerifyKey(locked.key, &counts), absl::OkStatus()) << ToString(locked.key);
    EXPECT_EQ(counts.messages_sent, locked.counts.messages_sent) << ToString(locked.key);
    EXPECT_EQ(counts.slices_sent, locked.counts.slices_sent) << ToString(locked.key);
    EXPECT_EQ(counts.peers, locked.counts.peers) << ToString(locked.key);
    EXPECT_EQ(counts.depth, locked.counts.depth) << ToString(locked.key);
  }
}

// Where every rank, or a root, has a message for every other.
bool IsFlat(Algorithm algorithm, Collective collective) {
  return algorithm == Algorithm::kDirect || algorithm == Algorithm::kExchange ||
         (algorithm == Algorithm::kGather && collective == Collective::kReduce);
}

TEST(BuildScheduleTest, DepthAndPeersGrowWithTheLogarithm) {
  for (int size = 2; size <= 64; ++size) {
    const uint32_t log = static_cast<uint32_t>(std::bit_width(static_cast<uint32_t>(size - 1)));
    for (const ScheduleKey& key : AllKeys(size)) {
      if (IsFlat(key.algorithm, key.collective) || key.algorithm == Algorithm::kRing ||
          key.algorithm == Algorithm::kHierarchical) {
        continue;
      }
      ScheduleCounts counts;
      ASSERT_EQ(VerifyKey(key, &counts), absl::OkStatus()) << ToString(key);
      EXPECT_LE(counts.depth, key.algorithm == Algorithm::kHalving ? 2 * log : log + 1) << ToString(key);
      EXPECT_LE(counts.peers, 2 * log) << ToString(key);
    }
  }
}

TEST(BuildScheduleTest, FlatSchedulesAreAtMostTwoMessagesDeep) {
  for (int size = 2; size <= 64; ++size) {
    for (const ScheduleKey& key : AllKeys(size)) {
      if (!IsFlat(key.algorithm, key.collective)) continue;
      ScheduleCounts counts;
      ASSERT_EQ(VerifyKey(key, &counts), absl::OkStatus()) << ToString(key);
      EXPECT_LE(counts.depth, 2u) << ToString(key);
    }
  }
}

TEST(BuildScheduleTest, RingsTalkToTheirNeighboursOnly) {
  for (int size = 2; size <= 64; ++size) {
    for (const ScheduleKey& key : AllKeys(size)) {
      if (key.algorithm != Algorithm::kRing) continue;
      for (int rank = 0; rank < size; ++rank) {
        for (const Step& step : Build(key, rank).steps) {
          if (step.peer < 0) continue;
          const int neighbour = step.kind == StepKind::kSend ? rank + 1 : rank + size - 1;
          EXPECT_EQ(step.peer, neighbour % size) << ToString(key);
        }
      }
    }
  }
}

// Slices that the ranks of a host send to others.
uint64_t SlicesBetweenHosts(const ScheduleKey& key, int host) {
  uint64_t slices = 0;
  for (int rank = host * key.ranks_per_host; rank < (host + 1) * key.ranks_per_host; ++rank) {
    for (const Step& step : Build(key, rank).steps) {
      if (step.kind == StepKind::kSend && step.peer / key.ranks_per_host != host) slices += step.operand.count;
    }
  }
  return slices;
}

TEST(BuildScheduleTest, HostsExchangeOnePartialResultEach) {
  for (const int ranks_per_host : {2, 4, 8, 16}) {
    for (int hosts = 2; hosts <= 9; ++hosts) {
      const int size = hosts * ranks_per_host;
      const ScheduleKey key = {Collective::kAllReduce, Algorithm::kHierarchical, size, 0, 0, false, ranks_per_host};
      for (int host = 0; host < hosts; ++host) {
        // 2 (m-1)/m times the operand of n slices.
        EXPECT_EQ(SlicesBetweenHosts(key, host) * hosts, 2u * (hosts - 1) * size) << ToString(key) << ", host " << host;
      }
    }
  }
}

// The canonical tree pairs ranks of different hosts, or of unequal halves of one.
TEST(BuildScheduleTest, HostsOfAnyNumberOfRanksExchangeLessThanTheirInputs) {
  for (int size = 4; size <= 64; ++size) {
    for (const ScheduleKey& key : AllKeys(size)) {
      if (key.algorithm != Algorithm::kHierarchical) continue;
      const int hosts = size / key.ranks_per_host;
      for (int host = 0; host < hosts; ++host) {
        // Every rank's input and every rank's result, as kDirect does.
        EXPECT_LT(SlicesBetweenHosts(key, host), 2u * (hosts - 1) * key.ranks_per_host * key.ranks_per_host)
            << ToString(key) << ", host " << host;
      }
    }
  }
}

TEST(BuildScheduleTest, RanksTalkToTheirHostAndToTheirCounterparts) {
  for (const ScheduleKey& key : AllKeys(60)) {
    if (key.algorithm != Algorithm::kHierarchical) continue;
    for (int rank = 0; rank < key.size; ++rank) {
      for (const Step& step : Build(key, rank).steps) {
        if (step.peer < 0 || step.peer / key.ranks_per_host == rank / key.ranks_per_host) continue;
        EXPECT_EQ(step.peer % key.ranks_per_host, rank % key.ranks_per_host) << ToString(key);
      }
    }
  }
}

TEST(BuildScheduleTest, LargeAllReducesMoveLittleMoreThanTheyMust) {
  ScheduleCounts counts;
  ASSERT_EQ(VerifyKey({Collective::kAllReduce, Algorithm::kHalving, 64}, &counts), absl::OkStatus());
  EXPECT_EQ(counts.slices_sent, 2u * 63);  // of 64 slices
  ASSERT_EQ(VerifyKey({Collective::kAllReduce, Algorithm::kDirect, 63}, &counts), absl::OkStatus());
  EXPECT_EQ(counts.slices_sent, 2u * 62);  // of 63 slices
}

TEST(BuildScheduleTest, WideSchedulesHaveAccumulatorsToKeep) {
  const Schedule wide =
      Build({.collective = Collective::kAllReduce, .algorithm = Algorithm::kDoubling, .size = 4, .wide = true}, 1);
  EXPECT_TRUE(wide.wide);
  EXPECT_EQ(wide.steps.front().kind, StepKind::kCopy);  // widens the input
  EXPECT_FALSE(wide.steps.front().final);
  EXPECT_EQ(wide.steps.back().kind, StepKind::kCopy);  // rounds the result
  EXPECT_TRUE(wide.steps.back().final);
}

TEST(BuildScheduleTest, ExistsForTheLargestSize) {
  ScheduleKey key = {Collective::kReduceScatter, Algorithm::kHalving, kSizeMax, kSizeMax - 1};
  key.wide = true;
  const absl::StatusOr<Schedule> schedule = BuildSchedule(key);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_LT(schedule->planes.size() + kPlane, size_t{UINT16_MAX});
}

struct Refused {
  ScheduleKey key;
  const char* why;
};

TEST(BuildScheduleTest, RefusesWhatCannotBe) {
  using enum Collective;
  using A = Algorithm;
  const Refused kRefused[] = {
      {{kBroadcast, A::kHalving, 4}, "there is no broadcast by algorithm 'halving'"},
      {{kAllReduce, A::kPair, 4}, "there is no all-reduce by algorithm 'pair'"},
      {{kBarrier, A::kBruck, 0}, "size 0 is not within 1 and"},
      {{kBarrier, A::kBruck, kSizeMax + 1}, "is not within 1 and"},
      {{kBarrier, A::kBruck, 4, 4}, "rank 4 is not one of 4 ranks"},
      {{kBarrier, A::kBruck, 4, -1}, "rank -1 is not one of 4 ranks"},
      {{kBroadcast, A::kTree, 4, 0, 4}, "root 4 is not one of 4 ranks"},
      {{kSend, A::kPair, 4, 0, -1}, "peer -1 is not one of 4 ranks"},
      {{kRecv, A::kPair, 4, 2, 2}, "rank 2 is its own peer"},
      {{kAllReduce, A::kDirect, kDirectSizeMax + 1}, "algorithm 'direct' is for at most 1024 ranks, not 1025"},
      {{kAllReduce, A::kGather, kDirectSizeMax + 1}, "algorithm 'gather' is for at most 1024 ranks, not 1025"},
      {{kAllReduce, A::kExchange, kDirectSizeMax + 1}, "algorithm 'exchange' is for at most 1024 ranks, not 1025"},
      {{kReduce, A::kGather, kDirectSizeMax + 1}, "algorithm 'gather' is for at most 1024 ranks, not 1025"},
      {{kBroadcast, A::kDirect, kDirectSizeMax + 1}, "algorithm 'direct' is for at most 1024 ranks, not 1025"},
      {{kAllToAll, A::kDirect, kDirectSizeMax + 1}, "algorithm 'direct' is for at most 1024 ranks, not 1025"},
      {{kAllReduce, A::kDirect, 4, 0, 0, /*wide=*/true}, "'direct' has no partial results"},
      {{kAllGather, A::kRing, 4, 0, 0, /*wide=*/true}, "'ring' has no partial results"},
      {{kBroadcast, A::kTree, 4, 0, 0, /*wide=*/true}, "'tree' has no partial results"},
      {{kAllReduce, A::kDirect, 4, 0, 0, false, 2}, "'direct' takes no notice of hosts"},
      {{kAllReduce, A::kHierarchical, 4}, "several ranks each, 1024 in sum at most, not for 4 ranks, 1 a host"},
      {{kAllReduce, A::kHierarchical, 4, 0, 0, false, 4}, "not for 4 ranks, 4 a host"},
      {{kAllReduce, A::kHierarchical, 6, 0, 0, false, 4}, "not for 6 ranks, 4 a host"},
      {{kAllReduce, A::kHierarchical, 4, 0, 0, false, 0}, "not for 4 ranks, 0 a host"},
      {{kAllReduce, A::kHierarchical, 4096, 0, 0, false, 2}, "not for 4096 ranks, 2 a host"},
      {{static_cast<Collective>(99), A::kTree, 4}, "there is no unknown"},
  };
  for (const Refused& refused : kRefused) {
    const absl::Status status = BuildSchedule(refused.key).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << ToString(refused.key);
    EXPECT_THAT(std::string(status.message()), HasSubstr(refused.why));
  }
}

}  // namespace
}  // namespace tutti
