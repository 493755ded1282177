#include "tests/transport/transport_conformance.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "src/base/thread.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Verdict = MessageSink::Verdict;

constexpr Channel kOther = Channel::kPointToPoint;

TEST_P(TransportConformance, KnowsItsRankAndSize) {
  Make(3);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ranks_[rank].endpoint().rank(), rank);
    EXPECT_EQ(ranks_[rank].endpoint().size(), 3);
  }
}

TEST_P(TransportConformance, DescribesItself) {
  Make(2);
  EXPECT_THAT(ranks_[0].endpoint().Describe(), HasSubstr("transport = "));
}

TEST_P(TransportConformance, DeliversMessagesOfEverySize) {
  Make(2);
  const uint64_t sizes[] = {0, 1, 31, 32, 4096, 8192, (1 << 20) + 3, 0, 5};
  for (int from : {0, 1}) {
    for (uint64_t bytes : sizes) ranks_[from].Send(1 - from, TestPayload(bytes, bytes + from));
    ranks_[1 - from].Expect(from, std::size(sizes));
  }
  ASSERT_TRUE(PollUntil([&] {
    return ranks_[0].received().size() == std::size(sizes) && ranks_[1].received().size() == std::size(sizes) &&
           ranks_[0].unsent() + ranks_[1].unsent() == 0;
  }));
  for (int from : {0, 1}) {
    for (size_t i = 0; i < std::size(sizes); ++i) {
      EXPECT_EQ(ranks_[1 - from].received()[i].payload, TestPayload(sizes[i], sizes[i] + from)) << sizes[i] << " bytes";
    }
  }
}

TEST_P(TransportConformance, KeepsTheOrderOfEachPeerAndChannel) {
  Make(3);
  constexpr uint32_t kCount = 200;
  for (int from : {0, 1}) {
    for (Channel channel : {Channel::kCollective, kOther}) {
      for (uint32_t i = 0; i < kCount; ++i) ranks_[from].Send(2, TestPayload(i % 50, i), channel);
      ranks_[2].Expect(from, kCount, channel);
    }
  }
  ASSERT_TRUE(PollUntil([&] { return ranks_[2].received().size() == 4 * kCount; }));
  std::map<std::pair<int, Channel>, uint32_t> next;
  for (const TestRank::Message& message : ranks_[2].received()) {
    const uint32_t i = next[{message.peer, message.channel}]++;
    ASSERT_EQ(message.payload, TestPayload(i % 50, i));
  }
}

TEST_P(TransportConformance, MovesManySmallMessages) {
  Make(2);
  constexpr uint32_t kCount = 20000;
  ranks_[0].Expect(1, kCount);
  for (uint32_t i = 0; i < kCount; ++i) ranks_[1].Send(0, absl::StrCat(i));
  ASSERT_TRUE(PollUntil([&] { return ranks_[0].received().size() == kCount && ranks_[1].unsent() == 0; }));
  for (uint32_t i = 0; i < kCount; ++i) ASSERT_EQ(ranks_[0].received()[i].payload, absl::StrCat(i));
}

TEST_P(TransportConformance, LargeMessagesInBothDirectionsDoNotBlockEachOther) {
  Make(2);
  const std::string payloads[] = {TestPayload(GetParam().large_bytes, 1), TestPayload(GetParam().large_bytes, 2)};
  for (int rank : {0, 1}) {
    ranks_[rank].Send(1 - rank, payloads[rank]);
    ranks_[rank].Expect(1 - rank);
  }
  ASSERT_TRUE(PollUntil([&] { return ranks_[0].received().size() == 1 && ranks_[1].received().size() == 1; }));
  for (int rank : {0, 1}) EXPECT_TRUE(ranks_[rank].received()[0].payload == payloads[1 - rank]);
}

TEST_P(TransportConformance, AllRanksExchangeWithAllOthers) {
  for (int size = 2; size <= 6; ++size) {
    ranks_.clear();
    Make(size);
    auto payload = [](int from, int to) { return TestPayload(100000 + from, from * 100 + to); };
    for (int from = 0; from < size; ++from) {
      for (int to = 0; to < size; ++to) {
        if (from == to) continue;
        ranks_[from].Expect(to);
        ranks_[from].Send(to, payload(from, to));
      }
    }
    ASSERT_TRUE(PollUntil([&] {
      return std::all_of(ranks_.begin(), ranks_.end(), [&](const TestRank& rank) {
        return rank.received().size() == static_cast<size_t>(size - 1) && rank.unsent() == 0;
      });
    })) << "size "
        << size;
    for (int to = 0; to < size; ++to) {
      for (const TestRank::Message& message : ranks_[to].received()) {
        ASSERT_TRUE(message.payload == payload(message.peer, to));
      }
    }
  }
}

TEST_P(TransportConformance, EverybodyGetsThereWhenSleepingBetweenPolls) {
  Make(4);
  constexpr size_t kRounds = 300;
  std::vector<Thread> threads;
  for (int self = 0; self < 4; ++self) {
    threads.emplace_back(absl::StrCat("rank", self), [this, self] {
      TestRank& rank = ranks_[self];
      for (size_t round = 0; round < kRounds; ++round) {
        for (int peer = 0; peer < 4; ++peer) {
          if (peer == self) continue;
          rank.Send(peer, TestPayload(round * 7, round));
          rank.Expect(peer);
        }
        ASSERT_TRUE(PollAndSleepUntil(rank, [&] { return rank.received().size() == 3 * (round + 1); }));
      }
      ASSERT_TRUE(PollAndSleepUntil(rank, [&] { return rank.unsent() == 0; }));
    });
  }
  threads.clear();
  for (TestRank& rank : ranks_) EXPECT_EQ(rank.received().size(), 3 * kRounds);
}

TEST_P(TransportConformance, TheSinkMayUseTheEndpoint) {
  Make(2);
  for (int rank : {0, 1}) {
    ranks_[rank].on_received = [this, rank](int peer) {
      if (ranks_[rank].received().size() == 50) return;
      ranks_[rank].Expect(peer);
      ranks_[rank].Send(peer, "back");
    };
    ranks_[rank].Expect(1 - rank);
  }
  ranks_[0].Send(1, "there");
  ASSERT_TRUE(PollUntil([&] { return ranks_[1].received().size() == 50; }));
}

TEST_P(TransportConformance, LooksAtNothingThatIsNotExpected) {
  Make(2);
  ranks_[1].Expect(0);
  ranks_[0].Send(1, "first");
  ranks_[0].Send(1, "second");
  ASSERT_TRUE(PollUntil([&] { return ranks_[1].received().size() == 1; }));
  PollAWhile();
  EXPECT_EQ(ranks_[1].offers(), 1);
  ranks_[1].Expect(0);
  ASSERT_TRUE(PollUntil([&] { return ranks_[1].received().size() == 2; }));
  EXPECT_EQ(ranks_[1].received()[1].payload, "second");
}

TEST_P(TransportConformance, OffersAKeptMessageAtEachPollUntilItIsTaken) {
  Make(2);
  Verdict verdict = Verdict::kLater;
  ranks_[1].judge = [&](int, Channel) { return verdict; };
  ranks_[1].Expect(0, 2);
  const std::string large = TestPayload(300000, 1);
  ranks_[0].Send(1, large);
  ranks_[0].Send(1, "next");
  ASSERT_TRUE(PollUntil([&] { return ranks_[1].offers() > 0; }));
  const int offers = ranks_[1].offers();
  for (int i = 0; i < 10; ++i) ranks_[1].Poll();
  EXPECT_EQ(ranks_[1].offers(), offers + 10);
  EXPECT_THAT(ranks_[1].received(), IsEmpty());
  verdict = Verdict::kTake;
  ASSERT_TRUE(PollUntil([&] { return ranks_[1].received().size() == 2; }));
  EXPECT_TRUE(ranks_[1].received()[0].payload == large);
  EXPECT_EQ(ranks_[1].received()[1].payload, "next");
}

TEST_P(TransportConformance, AKeptMessageDoesNotHoldUpTheOtherChannel) {
  Make(2);
  for (Channel kept : {Channel::kCollective, kOther}) {
    const Channel free = kept == kOther ? Channel::kCollective : kOther;
    Verdict verdict = Verdict::kLater;
    ranks_[1].judge = [&](int, Channel channel) { return channel == kept ? verdict : Verdict::kTake; };
    const size_t before = ranks_[1].received().size();
    ranks_[1].Expect(0, 1, kept);
    ranks_[1].Expect(0, 20, free);
    ranks_[0].Send(1, TestPayload(8 << 20), kept);
    for (int i = 0; i < 20; ++i) ranks_[0].Send(1, TestPayload(100000, i), free);
    ASSERT_TRUE(PollUntil([&] { return ranks_[1].received().size() == before + 20; }));
    verdict = Verdict::kTake;
    ASSERT_TRUE(PollUntil([&] { return ranks_[1].received().size() == before + 21; }));
    EXPECT_EQ(ranks_[1].received().back().channel, kept);
  }
}

TEST_P(TransportConformance, ARefusedMessageIsNotOfferedAgain) {
  Make(2);
  ranks_[1].judge = [](int, Channel) { return Verdict::kRefuse; };
  ranks_[1].Expect(0, 2);
  ranks_[0].Send(1, "wrong");
  ranks_[0].Send(1, "also wrong");
  ASSERT_TRUE(PollUntil([&] { return ranks_[1].offers() > 0; }));
  PollAWhile();
  EXPECT_EQ(ranks_[1].offers(), 1);
}

TEST_P(TransportConformance, WakeFromAnotherThreadEndsSleep) {
  Make(2);
  Thread waker("waker", [this] { ranks_[0].endpoint().Wake(); });
  const absl::Time start = absl::Now();
  ranks_[0].endpoint().Sleep(start + kTestPatience);
  EXPECT_LT(absl::Now() - start, kTestPatience / 2);
}

TEST_P(TransportConformance, WakeEndsTheNextSleepAndOnlyThat) {
  Make(2);
  ranks_[0].endpoint().Wake();
  ranks_[0].Poll();
  ranks_[0].endpoint().Wake();
  const absl::Time start = absl::Now();
  ranks_[0].endpoint().Sleep(start + kTestPatience);
  EXPECT_LT(absl::Now() - start, kTestPatience / 2);
  const absl::Time deadline = absl::Now() + absl::Milliseconds(30);
  ranks_[0].endpoint().Sleep(deadline);
  EXPECT_GE(absl::Now(), deadline);
}

TEST_P(TransportConformance, AWakeBeforePollIsNotForgotten) {
  Make(2);
  ranks_[0].endpoint().Wake();
  for (int i = 0; i < 1000; ++i) ranks_[0].Poll();
  const absl::Time start = absl::Now();
  ranks_[0].endpoint().Sleep(start + kTestPatience);
  EXPECT_LT(absl::Now() - start, kTestPatience / 2);
}

TEST_P(TransportConformance, SleepEndsAtTheDeadline) {
  Make(2);
  const absl::Time deadline = absl::Now() + absl::Microseconds(2500);
  ranks_[0].endpoint().Sleep(deadline);
  EXPECT_GE(absl::Now(), deadline);
  ranks_[0].endpoint().Sleep(absl::InfinitePast());
}

TEST_P(TransportConformance, SleepEndsWhenAnExpectedMessageArrives) {
  Make(2);
  ranks_[0].Expect(1);
  ranks_[1].Expect(0);
  ranks_[0].Send(1, "connect");
  ranks_[1].Send(0, "connect");
  ASSERT_TRUE(PollUntil([&] { return ranks_[0].received().size() + ranks_[1].received().size() == 2; }));
  ranks_[0].Expect(1);
  Thread sender("sender", [this] {
    ranks_[1].Send(0, "wake up");
    EXPECT_TRUE(PollAndSleepUntil(ranks_[1], [this] { return ranks_[1].unsent() == 0; }));
  });
  EXPECT_TRUE(PollAndSleepUntil(ranks_[0], [this] { return ranks_[0].received().size() == 2; }));
}

TEST_P(TransportConformance, SleepEndsForAMessageThatCameBeforeItWasExpected) {
  Make(2);
  ranks_[0].Expect(1);
  ranks_[1].Send(0, "connect");
  ranks_[1].Send(0, "early");
  ASSERT_TRUE(PollUntil([&] { return ranks_[0].received().size() == 1; }));
  PollAWhile();
  ranks_[0].Expect(1);
  EXPECT_TRUE(PollAndSleepUntil(ranks_[0], [this] { return ranks_[0].received().size() == 2; }));
}

TEST_P(TransportConformance, APeerThatGoesWhileItIsExpectedIsLostOnce) {
  Make(3);
  for (int rank : {0, 2}) {
    ranks_[rank].Expect(1);
    ranks_[rank].Expect(1, 1, kOther);
  }
  ranks_[1].Send(0, "connect");
  ranks_[1].Send(2, "connect");
  ASSERT_TRUE(PollUntil([&] { return ranks_[0].received().size() + ranks_[2].received().size() == 2; }));
  for (int rank : {0, 2}) ranks_[rank].Expect(1, 5);
  ranks_[1].Leave();
  ASSERT_TRUE(PollUntil([&] { return !ranks_[0].lost().empty() && !ranks_[2].lost().empty(); }));
  PollAWhile();
  for (int rank : {0, 2}) {
    ASSERT_EQ(ranks_[rank].lost().size(), 1u);
    EXPECT_EQ(ranks_[rank].lost()[0].first, 1);
    EXPECT_EQ(ranks_[rank].lost()[0].second.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(ranks_[rank].lost()[0].second.message()), HasSubstr("rank 1"));
  }
  // The others go on.
  ranks_[0].Send(2, "still here");
  ranks_[2].Expect(0);
  ASSERT_TRUE(PollUntil([&] { return ranks_[2].received().size() == 2; }));
  // What is said to the lost one, or expected from it, is dropped.
  ranks_[0].Send(1, "hello?");
  ranks_[0].Expect(1);
  PollAWhile();
}

TEST_P(TransportConformance, ALossEndsSleep) {
  Make(2);
  ranks_[0].Expect(1, 2);
  ranks_[1].Send(0, "connect");
  ASSERT_TRUE(PollUntil([&] { return ranks_[0].received().size() == 1; }));
  Thread leaver("leaver", [this] { ranks_[1].Leave(); });
  EXPECT_TRUE(PollAndSleepUntil(ranks_[0], [this] { return !ranks_[0].lost().empty(); }));
}

TEST_P(TransportConformance, APeerThatGoesInOrderIsNotReported) {
  Make(2);
  for (int rank : {0, 1}) {
    ranks_[rank].Expect(1 - rank);
    ranks_[rank].Send(1 - rank, "last");
  }
  ASSERT_TRUE(PollUntil([&] {
    return ranks_[0].received().size() + ranks_[1].received().size() == 2 &&
           ranks_[0].unsent() + ranks_[1].unsent() == 0;
  }));
  ranks_[1].Leave();
  PollAWhile();
  ranks_[0].endpoint().Sleep(absl::Now() + absl::Milliseconds(5));
  PollAWhile();
  EXPECT_THAT(ranks_[0].lost(), IsEmpty());
}

TEST_P(TransportConformance, UsingAPeerThatHasGoneLosesIt) {
  for (bool by_send : {true, false}) {
    ranks_.clear();
    Make(2);
    ranks_[0].Expect(1);
    ranks_[1].Send(0, "last");
    ASSERT_TRUE(PollUntil([&] { return ranks_[0].received().size() == 1 && ranks_[1].unsent() == 0; }));
    ranks_[1].Leave();
    PollAWhile();
    ASSERT_THAT(ranks_[0].lost(), IsEmpty());
    by_send ? ranks_[0].Send(1, "hello?") : ranks_[0].Expect(1);
    ASSERT_TRUE(PollUntil([&] { return ranks_[0].lost().size() == 1; }));
    EXPECT_EQ(ranks_[0].lost()[0].first, 1);
  }
}

TEST_P(TransportConformance, WhatWasSentBeforeLeavingArrives) {
  Make(2);
  ranks_[0].Expect(1);
  ranks_[1].Send(0, "connect");
  ASSERT_TRUE(PollUntil([&] { return ranks_[0].received().size() == 1; }));
  for (int i = 0; i < 10; ++i) ranks_[1].Send(0, TestPayload(5000, i));
  for (int i = 0; i < 20 && ranks_[1].unsent() > 0; ++i) ranks_[1].Poll();
  const size_t sent = 10 - ranks_[1].unsent();
  ranks_[1].Leave();
  ranks_[0].Expect(1, 10);
  ASSERT_TRUE(PollUntil([&] { return ranks_[0].received().size() == 11 || !ranks_[0].lost().empty(); }));
  EXPECT_GE(ranks_[0].received().size(), 1 + (sent == 10 ? sent : 0));
}

// The sanitizers see a touch of memory that was given back.
TEST_P(TransportConformance, NothingTouchesMemoryAfterTheEndpointIsDestroyed) {
  for (int leaver : {0, 1}) {
    ranks_.clear();
    Make(2);
    for (int rank : {0, 1}) {
      ranks_[rank].Expect(1 - rank);
      ranks_[rank].Send(1 - rank, TestPayload(GetParam().large_bytes, rank));
    }
    ASSERT_TRUE(PollUntil([&] { return ranks_[0].offers() > 0 && ranks_[1].offers() > 0; }));
    ranks_[leaver].Leave();
    ASSERT_TRUE(PollUntil([&] {
      return !ranks_[1 - leaver].lost().empty() ||
             (ranks_[1 - leaver].unsent() == 0 && ranks_[1 - leaver].received().size() == 1);
    }));
  }
}

TEST_P(TransportConformance, MayBeDestroyedBeforeAnythingHappened) {
  Make(3);
  ranks_[0].Send(1, "never polled");
  ranks_[1].Expect(2);
}

}  // namespace
}  // namespace tutti
