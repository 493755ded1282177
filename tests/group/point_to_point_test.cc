// Tags, receives from any rank, and batches.

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/groups.h"
#include "tests/support/numbers.h"
#include "tutti/process_group.h"

namespace tutti {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

class PointToPoint : public testing::TestWithParam<Wire> {
 protected:
  void Make(int size) { groups_ = MakeGroups(GetParam(), size); }
  TestGroups groups_;
};

std::vector<int> Sequence(size_t count, int first) {
  std::vector<int> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = first + static_cast<int>(i);
  return values;
}

TEST_P(PointToPoint, TagsAreReceivedInWhateverOrder) {
  for (const size_t count : {size_t{0}, size_t{1}, size_t{1000}, size_t{1000003}}) {
    Make(2);
    OnEachRank(2, [&](int rank) {
      if (rank == 0) {
        const std::vector<std::vector<int>> data = {Sequence(count, 0), Sequence(count, 1000), Sequence(count, 2000)};
        std::vector<Work> works;
        for (uint32_t tag = 0; tag < 3; ++tag) {
          works.push_back(groups_[0].Send(absl::MakeConstSpan(data[tag]), 1, {.tag = tag}));
        }
        for (Work& work : works) ASSERT_EQ(work.Wait(), absl::OkStatus());
      } else {
        for (const uint32_t tag : {2u, 0u, 1u}) {
          std::vector<int> data(count);
          ASSERT_EQ(groups_[1].Recv(absl::MakeSpan(data), 0, {.tag = tag}).Wait(), absl::OkStatus());
          ASSERT_EQ(data, Sequence(count, 1000 * static_cast<int>(tag)));
        }
      }
    });
  }
}

TEST_P(PointToPoint, MessagesWithOneTagKeepTheirOrder) {
  Make(2);
  constexpr int kCount = 200;
  OnEachRank(2, [&](int rank) {
    std::vector<std::vector<int>> data;
    std::vector<Work> works;
    for (int i = 0; i < kCount; ++i) data.push_back(rank == 0 ? Sequence(7, i) : std::vector<int>(7));
    for (int i = 0; i < kCount; ++i) {
      std::vector<int>& message = data[static_cast<size_t>(i)];
      const PointToPointOptions tag = {.tag = static_cast<uint32_t>(i % 2)};
      works.push_back(rank == 0 ? groups_[0].Send(absl::MakeConstSpan(message), 1, tag)
                                : groups_[1].Recv(absl::MakeSpan(message), 0, tag));
    }
    for (Work& work : works) ASSERT_EQ(work.Wait(), absl::OkStatus());
    for (int i = 0; i < kCount; ++i) ASSERT_EQ(data[static_cast<size_t>(i)], Sequence(7, i));
  });
}

TEST_P(PointToPoint, AReceiveFromAnyRankSaysWhoseMessageItGot) {
  Make(5);
  OnEachRank(5, [&](int rank) {
    for (int round = 0; round < 3; ++round) {
      const size_t count = round == 2 ? 400001 : 3;
      if (rank != 2) {
        ASSERT_EQ(groups_[rank].Send(absl::MakeConstSpan(Sequence(count, 10 * rank)), 2, {.tag = 9}).Wait(),
                  absl::OkStatus());
        ASSERT_EQ(groups_[rank].Barrier().Wait(), absl::OkStatus());
        continue;
      }
      std::vector<std::vector<int>> data(4, std::vector<int>(count));
      std::vector<Work> works;
      for (std::vector<int>& message : data) {
        works.push_back(groups_[2].RecvAny(absl::MakeSpan(message), {.tag = 9}));
        EXPECT_THAT(works.back().Describe(), HasSubstr("recv of"));
      }
      std::vector<int> sources;
      for (size_t i = 0; i < 4; ++i) {
        ASSERT_EQ(works[i].Wait(), absl::OkStatus());
        sources.push_back(works[i].source());
        ASSERT_EQ(data[i], Sequence(count, 10 * works[i].source()));
      }
      EXPECT_THAT(sources, UnorderedElementsAre(0, 1, 3, 4));
      ASSERT_EQ(groups_[rank].Barrier().Wait(), absl::OkStatus());
    }
  });
}

TEST_P(PointToPoint, NamedAndAnonymousReceivesShareMessagesInTheirOrder) {
  Make(3);
  OnEachRank(3, [&](int rank) {
    if (rank == 0) {
      int one = 0, any = 0;
      Work named = groups_[0].Recv(absl::MakeSpan(&one, 1), 1);
      Work anonymous = groups_[0].RecvAny(absl::MakeSpan(&any, 1));
      ASSERT_EQ(named.Wait(), absl::OkStatus());
      ASSERT_EQ(anonymous.Wait(), absl::OkStatus());
      EXPECT_EQ(one, 1);
      EXPECT_EQ(any, 2);
      EXPECT_EQ(named.source(), 1);
      EXPECT_EQ(anonymous.source(), 2);
    } else {
      ASSERT_EQ(groups_[rank].Send(absl::MakeConstSpan(&rank, 1), 0).Wait(), absl::OkStatus());
    }
    ASSERT_EQ(groups_[rank].Barrier().Wait(), absl::OkStatus());
  });
}

TEST_P(PointToPoint, AnotherSizeIsAMismatch) {
  Make(2);
  absl::Status received;
  OnEachRank(2, [&](int rank) {
    std::vector<int> data(rank == 0 ? 4 : 5);
    if (rank == 0) {
      (void)groups_[0].Send(absl::MakeConstSpan(data), 1, {.tag = 7}).Wait();
    } else {
      received = groups_[1].Recv(absl::MakeSpan(data), 0, {.tag = 7}).Wait();
      groups_.ranks[1] = nullptr;
    }
  });
  EXPECT_EQ(received.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(received.message()), HasSubstr("recv of 5 int32 from rank 0 with tag 7"));
}

TEST_P(PointToPoint, ABatchOfSendsAndReceivesInTheSameOrderEverywhere) {
  constexpr int kSize = 4;
  Make(kSize);
  OnEachRank(kSize, [&](int rank) {
    // Everybody sends first, which could not be waited for one by one.
    const std::vector<int> mine = Sequence(300000, rank);
    std::vector<std::vector<int>> theirs(kSize, std::vector<int>(mine.size()));
    Work inner(absl::OkStatus());
    Work all = groups_[rank].Batch([&](ProcessGroup& batch) {
      for (int other = 0; other < kSize; ++other) {
        if (other != rank) (void)batch.Send(absl::MakeConstSpan(mine), other);
      }
      for (int other = 0; other < kSize; ++other) {
        if (other != rank) inner = batch.Recv(absl::MakeSpan(theirs[static_cast<size_t>(other)]), other);
      }
      EXPECT_FALSE(inner.Done());
      EXPECT_EQ(inner.Wait().code(), absl::StatusCode::kFailedPrecondition);
    });
    ASSERT_EQ(all.Wait(), absl::OkStatus());
    EXPECT_TRUE(all.Done());
    EXPECT_EQ(inner.Wait(), absl::OkStatus());
    EXPECT_EQ(all.Describe(), "batch of operations");
    for (int other = 0; other < kSize; ++other) {
      if (other != rank) {
        ASSERT_EQ(theirs[static_cast<size_t>(other)], Sequence(mine.size(), other));
      }
    }
  });
}

TEST_P(PointToPoint, ABatchOfCollectives) {
  Make(3);
  OnEachRank(3, [&](int rank) {
    std::vector<std::vector<int>> data;
    for (int i = 0; i < 16; ++i) data.push_back(Sequence(1000, i + rank));
    Work all = groups_[rank].Batch([&](ProcessGroup& batch) {
      EXPECT_EQ(batch.rank(), rank);
      EXPECT_EQ(batch.size(), 3);
      for (std::vector<int>& each : data) (void)batch.AllReduce(absl::MakeSpan(each));
      (void)batch.Barrier();
    });
    ASSERT_EQ(all.Wait(), absl::OkStatus());
    for (int i = 0; i < 16; ++i) ASSERT_EQ(data[static_cast<size_t>(i)][5], 3 * (i + 5) + 3);
  });
}

TEST_P(PointToPoint, ABatchWithARefusedCallIssuesNothing) {
  Make(2);
  OnEachRank(2, [&](int rank) {
    std::vector<int> data(3);
    Work before(absl::OkStatus());
    Work all = groups_[rank].Batch([&](ProcessGroup& batch) {
      before = batch.AllReduce(absl::MakeSpan(data));
      EXPECT_EQ(batch.Send(absl::MakeConstSpan(data), 5).Wait().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_EQ(batch.Batch([](ProcessGroup&) {}).Wait().code(), absl::StatusCode::kFailedPrecondition);
    });
    EXPECT_EQ(all.Wait().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(before.Wait().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(groups_[rank].Batch([](ProcessGroup&) {}).Wait(), absl::OkStatus());
    EXPECT_EQ(groups_[rank].Barrier().Wait(), absl::OkStatus());
  });
}

TEST_P(PointToPoint, TwoGroupsAreUsedFromTwoThreads) {
  Make(3);
  TestGroups others = MakeGroups(GetParam(), 3);
  OnEachRank(6, [&](int thread) {
    ProcessGroup& group = thread < 3 ? groups_[thread] : others[thread - 3];
    for (int i = 0; i < 50; ++i) {
      std::vector<int> data = Sequence(1 + static_cast<size_t>(i) * 37, group.rank());
      ASSERT_EQ(group.AllReduce(absl::MakeSpan(data)).Wait(), absl::OkStatus());
      ASSERT_EQ(data.back(), 3 * static_cast<int>(data.size() - 1) + 3);
    }
  });
}

TEST_P(PointToPoint, ThreadsThatAgreeOnAnOrderMayShareAGroup) {
  Make(2);
  // Both ranks: thread 0 issues, thread 1 waits.
  OnEachRank(2, [&](int rank) {
    std::vector<std::vector<int>> data;
    std::vector<Work> works;
    for (int i = 0; i < 40; ++i) data.push_back(Sequence(5000, i));
    for (std::vector<int>& each : data) works.push_back(groups_[rank].AllReduce(absl::MakeSpan(each)));
    OnEachRank(4, [&](int thread) {
      for (size_t i = static_cast<size_t>(thread); i < works.size(); i += 4) {
        Work work = works[i];
        ASSERT_EQ(work.Wait(), absl::OkStatus());
        ASSERT_EQ(data[i][7], 2 * (static_cast<int>(i) + 7));
      }
    });
  });
}

INSTANTIATE_TEST_SUITE_P(Wires, PointToPoint, testing::Values(Wire::kSim, Wire::kTcp, Wire::kShm, Wire::kTwoPerHost),
                         [](const auto& each) { return Name(each.param); });

}  // namespace
}  // namespace tutti
