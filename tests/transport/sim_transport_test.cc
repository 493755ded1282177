#include "src/transport/sim/sim_transport.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/transport/test_rank.h"
#include "tests/transport/transport_conformance.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::unique_ptr<Endpoint>> MakeEndpoints(const std::shared_ptr<SimNetwork>& network, int size) {
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  for (int rank = 0; rank < size; ++rank) endpoints.push_back(network->MakeEndpoint(rank));
  return endpoints;
}

TransportUnderTest Sim(uint64_t seed, int delay_polls_max) {
  return {absl::StrCat("Seed", seed, "Delay", delay_polls_max),
          [=](int size) {
            return MakeEndpoints(SimNetwork::Create({.size = size, .seed = seed, .delay_polls_max = delay_polls_max}),
                                 size);
          },
          1 << 20};
}

INSTANTIATE_TEST_SUITE_P(Sim, TransportConformance, ::testing::Values(Sim(1, 0), Sim(2, 3), Sim(3, 100)),
                         TransportName);

class SimTransportTest : public ::testing::Test {
 protected:
  void Make(const SimOptions& options) {
    ranks_.clear();
    network_ = SimNetwork::Create(options);
    for (auto& endpoint : MakeEndpoints(network_, options.size)) ranks_.emplace_back(std::move(endpoint));
  }

  // Everybody sends to rank 0 and is polled in turn; who came when, and after how many rounds all was done.
  std::vector<int> ArrivalOrder(uint64_t seed) {
    Make({.size = 5, .seed = seed, .delay_polls_max = 6});
    for (int from = 1; from < 5; ++from) {
      for (int i = 0; i < 5; ++i) ranks_[from].Send(0, TestPayload(100, i));
      ranks_[0].Expect(from, 5);
    }
    int rounds = 0;
    EXPECT_TRUE(PollUntil(ranks_, [&] { return ++rounds, ranks_[0].received().size() == 20; }));
    std::vector<int> order;
    for (const TestRank::Message& message : ranks_[0].received()) order.push_back(message.peer);
    order.push_back(rounds);
    return order;
  }

  std::shared_ptr<SimNetwork> network_;
  std::vector<TestRank> ranks_;
};

TEST_F(SimTransportTest, TheSeedDecidesWhatOvertakesWhat) {
  const std::vector<int> order = ArrivalOrder(7);
  EXPECT_EQ(order, ArrivalOrder(7));
  EXPECT_NE(order, ArrivalOrder(8));
}

TEST_F(SimTransportTest, ALargeMessageTakesSeveralPolls) {
  Make({.size = 2, .seed = 1, .delay_polls_max = 0});
  int most_polls = 0;
  for (int i = 0; i < 10; ++i) {
    ranks_[0].Send(1, TestPayload(10000, i));
    ranks_[1].Expect(0);
    int polls = 0;
    ASSERT_TRUE(PollUntil(ranks_, [&] { return ++polls, ranks_[1].received().size() == i + 1u; }));
    most_polls = std::max(most_polls, polls);
    EXPECT_EQ(ranks_[1].received()[i].payload, TestPayload(10000, i));
  }
  EXPECT_GT(most_polls, 3);
}

TEST_F(SimTransportTest, AKilledRankIsLostToThoseThatWaitForItAndThoseThatUseItLater) {
  Make({.size = 4, .seed = 1, .delay_polls_max = 0});
  ranks_[1].Send(0, "stopped on its way");
  ranks_[0].Expect(1);
  network_->Kill(1, absl::UnavailableError("killed by the test"));
  ASSERT_TRUE(PollUntil(ranks_, [&] { return !ranks_[0].lost().empty(); }));
  EXPECT_THAT(std::string(ranks_[0].lost()[0].second.message()), HasSubstr("killed by the test"));
  EXPECT_THAT(ranks_[0].received(), IsEmpty());
  EXPECT_THAT(ranks_[2].lost(), IsEmpty());
  ranks_[2].Send(1, "later");
  ranks_[3].Expect(1);
  ASSERT_TRUE(PollUntil(ranks_, [&] { return !ranks_[2].lost().empty() && !ranks_[3].lost().empty(); }));
}

TEST_F(SimTransportTest, AKilledRankHearsAndSaysNothing) {
  Make({.size = 2, .seed = 1, .delay_polls_max = 0});
  ranks_[0].Send(1, "a");
  ranks_[1].Expect(0);
  network_->Kill(1, absl::UnavailableError("killed"));
  ranks_[1].Send(0, "b");
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(ranks_[1].Poll());
    ranks_[0].Poll();
  }
  EXPECT_EQ(ranks_[1].offers(), 0);
  EXPECT_EQ(ranks_[0].offers(), 0);
}

}  // namespace
}  // namespace tutti
