#include "src/observe/journal.h"

#include <set>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tutti {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

void Begin(Journal& journal, uint32_t sequence, const OperationDescriptor& descriptor) {
  journal.Begin(sequence, descriptor, Fingerprint(descriptor));
}

OperationDescriptor AllReduce(uint64_t count = 409600) {
  return {.collective = Collective::kAllReduce,
          .op = ReduceOp::kSum,
          .type = DataType::kFloat32,
          .algorithm = Algorithm::kHalving,
          .count = count,
          .segment_bytes = 1 << 20};
}

OperationDescriptor Pair(Collective collective, int peer, uint64_t count = 8) {
  return {.collective = collective,
          .type = DataType::kInt32,
          .algorithm = Algorithm::kPair,
          .count = count,
          .root = peer,
          .segment_bytes = 1 << 20};
}

TEST(FingerprintTest, DiffersWhenAnythingDiffersThatRanksMustAgreeOn) {
  std::vector<OperationDescriptor> descriptors(11, AllReduce());
  descriptors[1].collective = Collective::kReduceScatter;
  descriptors[2].op = ReduceOp::kMax;
  descriptors[3].type = DataType::kInt32;
  descriptors[4].algorithm = Algorithm::kDoubling;
  descriptors[5].count = 409601;
  descriptors[6].root = 1;
  descriptors[7].divisor = 2;
  descriptors[8].divisor = -1;
  descriptors[9].segment_bytes = 1 << 19;
  descriptors[10].count = uint64_t{409600} << 32;
  std::set<uint64_t> fingerprints;
  for (const OperationDescriptor& descriptor : descriptors) fingerprints.insert(Fingerprint(descriptor));
  EXPECT_THAT(fingerprints, SizeIs(descriptors.size()));
}

TEST(FingerprintTest, IgnoresOperatorAndDivisorWhereNothingIsReduced) {
  OperationDescriptor gather = AllReduce();
  gather.collective = Collective::kAllGather;
  OperationDescriptor other = gather;
  other.op = ReduceOp::kMin;
  other.divisor = 3;
  EXPECT_EQ(Fingerprint(gather), Fingerprint(other));
}

TEST(FingerprintTest, IsEqualForTheTwoSidesOfASend) {
  EXPECT_EQ(Fingerprint(Pair(Collective::kSend, 1)), Fingerprint(Pair(Collective::kRecv, 0)));
  EXPECT_NE(Fingerprint(Pair(Collective::kSend, 1)), Fingerprint(Pair(Collective::kRecv, 0, 9)));
}

// Ranks may run builds of different compilers. The numbers come from a second implementation, in Python.
TEST(FingerprintTest, IsTheSameNumberInEveryBuild) {
  EXPECT_EQ(Fingerprint(AllReduce()), 7228887467449211922u);
  EXPECT_EQ(Fingerprint({}), 5376807935085680349u);
}

TEST(OperationDescriptorTest, ReadsLikeACall) {
  EXPECT_EQ(ToString(AllReduce()), "all-reduce of 409600 float32, sum");
  OperationDescriptor mean = AllReduce(3);
  mean.op = ReduceOp::kAverage;
  mean.divisor = 8;
  EXPECT_EQ(ToString(mean), "all-reduce of 3 float32, average divided by 8");
  OperationDescriptor broadcast = AllReduce(4);
  broadcast.collective = Collective::kBroadcast;
  broadcast.root = 2;
  EXPECT_EQ(ToString(broadcast), "broadcast of 4 float32 from rank 2");
  OperationDescriptor gather = AllReduce(5);
  gather.collective = Collective::kAllGather;
  EXPECT_EQ(ToString(gather), "all-gather of 5 float32");
  EXPECT_EQ(ToString(OperationDescriptor{}), "barrier");
  EXPECT_EQ(ToString(Pair(Collective::kSend, 1)), "send of 8 int32 to rank 1");
  EXPECT_EQ(ToString(Pair(Collective::kRecv, 0)), "recv of 8 int32 from rank 0");
}

TEST(JournalTest, KnowsNothingAtFirst) {
  const Journal journal;
  EXPECT_FALSE(journal.Latest().has_value());
  EXPECT_FALSE(journal.Find(0).has_value());
  EXPECT_FALSE(journal.Find(1).has_value());
  EXPECT_THAT(journal.Recent(10), IsEmpty());
}

TEST(JournalTest, FindsWhatBeganAndWhetherItEnded) {
  Journal journal;
  Begin(journal, 1, AllReduce(10));
  Begin(journal, 2, AllReduce(20));
  journal.End(1);
  ASSERT_TRUE(journal.Find(1).has_value());
  EXPECT_EQ(journal.Find(1)->descriptor.count, 10u);
  EXPECT_TRUE(journal.Find(1)->done);
  ASSERT_TRUE(journal.Latest().has_value());
  EXPECT_EQ(journal.Latest()->sequence, 2u);
  EXPECT_EQ(journal.Latest()->descriptor.count, 20u);
  EXPECT_FALSE(journal.Latest()->done);
  EXPECT_FALSE(journal.Find(3).has_value());
}

TEST(JournalTest, ListsTheNewestLast) {
  Journal journal;
  for (uint32_t sequence = 1; sequence <= 5; ++sequence) Begin(journal, sequence, AllReduce(sequence));
  const std::vector<Journal::Entry> recent = journal.Recent(3);
  ASSERT_THAT(recent, SizeIs(3));
  EXPECT_EQ(recent[0].sequence, 3u);
  EXPECT_EQ(recent[2].sequence, 5u);
  EXPECT_THAT(journal.Recent(100), SizeIs(5));
}

TEST(JournalTest, ForgetsTheOldestWhenFull) {
  Journal journal;
  const uint32_t last = Journal::kEntries + 10;
  for (uint32_t sequence = 1; sequence <= last; ++sequence) Begin(journal, sequence, AllReduce(sequence));
  EXPECT_FALSE(journal.Find(10).has_value());
  ASSERT_TRUE(journal.Find(11).has_value());
  EXPECT_EQ(journal.Find(11)->descriptor.count, 11u);
  const std::vector<Journal::Entry> recent = journal.Recent(1000);
  ASSERT_THAT(recent, SizeIs(Journal::kEntries));
  EXPECT_EQ(recent.front().sequence, 11u);
  EXPECT_EQ(recent.back().sequence, last);
  journal.End(10);  // has been overwritten by 74: no effect
  EXPECT_FALSE(journal.Find(last)->done);
}

TEST(JournalTest, HistoryIsEqualAsLongAsTheOperationsAre) {
  Journal a, b;
  for (uint32_t sequence = 1; sequence <= 100; ++sequence) {
    Begin(a, sequence, AllReduce(sequence));
    Begin(b, sequence, AllReduce(sequence == 90 ? 7 : sequence));
  }
  EXPECT_EQ(a.Find(89)->history, b.Find(89)->history);
  EXPECT_NE(a.Find(90)->history, b.Find(90)->history);
  EXPECT_NE(a.Find(91)->history, b.Find(91)->history);
  EXPECT_NE(a.Latest()->history, b.Latest()->history);
}

TEST(JournalTest, HistoryTellsTheOrder) {
  Journal a, b;
  Begin(a, 1, AllReduce(1));
  Begin(a, 2, AllReduce(2));
  Begin(b, 1, AllReduce(2));
  Begin(b, 2, AllReduce(1));
  EXPECT_NE(a.Latest()->history, b.Latest()->history);
}

TEST(JournalTest, IsReadWhileItIsWritten) {
  Journal journal;
  std::jthread writer([&] {
    for (uint32_t sequence = 1; sequence <= 2000; ++sequence) {
      Begin(journal, sequence, AllReduce(sequence));
      journal.End(sequence);
    }
  });
  uint32_t seen = 0;
  while (seen < 2000) {
    const std::optional<Journal::Entry> latest = journal.Latest();
    if (!latest.has_value()) continue;
    ASSERT_GE(latest->sequence, seen);
    ASSERT_EQ(latest->descriptor.count, latest->sequence);
    seen = latest->sequence;
  }
}

}  // namespace
}  // namespace tutti
