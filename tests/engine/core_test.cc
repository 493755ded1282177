// The core in one thread, many ranks over a simulated network, driven in a seeded random order.

#include "src/engine/core.h"

#include <memory>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/transport/sim/sim_transport.h"
#include "tests/support/numbers.h"

namespace tutti {
namespace {

using testing::HasSubstr;

class World {
 public:
  World(int size, uint64_t seed) : network_(SimNetwork::Create({.size = size, .seed = seed})), random_(seed) {
    for (int rank = 0; rank < size; ++rank) {
      journals_.push_back(std::make_unique<Journal>());
      cores_.push_back(std::make_unique<Core>(network_->MakeEndpoint(rank), *journals_.back()));
    }
    sequences_.resize(cores_.size());
  }
  ~World() {
    for (auto& core : cores_) core->Fail(absl::CancelledError("the end"));
  }

  int size() const { return static_cast<int>(cores_.size()); }
  Core& core(int rank) { return *cores_[static_cast<size_t>(rank)]; }
  SimNetwork& network() { return *network_; }

  Work Start(int rank, const OperationRequest& request, absl::string_view selection = "", int ranks_per_host = 1) {
    EngineOperation* operation = pool_->Take(2);
    tables_.push_back(std::make_unique<SelectionTable>(*ParseSelectionTable(selection)));
    operation->Prepare(request, size(), *tables_.back(), ranks_per_host);
    if (operation->channel == Channel::kCollective) {
      operation->sequence = ++sequences_[static_cast<size_t>(rank)];
      journals_[static_cast<size_t>(rank)]->Begin(operation->sequence, operation->descriptor, operation->fingerprint);
    }
    core(rank).Start(operation);
    return Work(operation);
  }

  // Until all cores are idle or in trouble; false after a great many turns without that.
  bool Run() {
    for (int turn = 0; turn < 2000000; ++turn) {
      core(static_cast<int>(random_() % cores_.size())).Progress();
      bool over = true;
      for (auto& core : cores_) over = over && (core->idle() || core->trouble().has_value());
      if (over) return true;
    }
    return false;
  }

 private:
  std::shared_ptr<SimNetwork> network_;
  OperationPool::Owner pool_ = OperationPool::Create();
  std::vector<std::unique_ptr<Journal>> journals_;
  std::vector<std::unique_ptr<Core>> cores_;
  std::vector<uint32_t> sequences_;
  std::vector<std::unique_ptr<SelectionTable>> tables_;
  std::mt19937_64 random_;
};

OperationRequest AllReduce(Numbers& data) {
  return {.collective = Collective::kAllReduce,
          .op = ReduceOp::kSum,
          .type = data.type(),
          .count = data.count(),
          .input = data.tensor().data(),
          .output = data.tensor().data()};
}

// As few as there can be on several hosts with several ranks each; else 1.
int FewRanksPerHost(int size) {
  for (const int ranks : {2, 3}) {
    if (ranks < size && size % ranks == 0) return ranks;
  }
  return 1;
}

TEST(Core, AllReducesForEverySeedAlgorithmAndNumberOfRanks) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const int size = 1 + static_cast<int>(seed % 9);
    for (const Algorithm algorithm :
         {Algorithm::kGather, Algorithm::kDirect, Algorithm::kDoubling, Algorithm::kHalving, Algorithm::kExchange,
          Algorithm::kQuadrupling, Algorithm::kHierarchical, Algorithm::kRing}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " size " << size << " " << Name(algorithm));
      World world(size, seed);
      std::vector<Numbers> data;
      for (int rank = 0; rank < size; ++rank) data.push_back(Numbers::Constant(DataType::kInt32, 777, rank + 1));
      std::vector<Work> works;
      for (int rank = 0; rank < size; ++rank) {
        works.push_back(world.Start(rank, AllReduce(data[static_cast<size_t>(rank)]),
                                    absl::StrCat("all-reduce = ", Name(algorithm), " chunk=64"),
                                    FewRanksPerHost(size)));
      }
      ASSERT_TRUE(world.Run());
      for (Work& work : works) ASSERT_EQ(work.Wait(), absl::OkStatus());
      for (const Numbers& numbers : data)
        ASSERT_TRUE(numbers == Numbers::Constant(DataType::kInt32, 777, size * (size + 1) / 2));
    }
  }
}

TEST(Core, RunsOperationsInOrderHoweverFarRanksAreApart) {
  World world(3, 7);
  std::vector<std::vector<Numbers>> data(3);
  std::vector<Work> works;
  for (int rank = 0; rank < 3; ++rank) {
    for (int i = 0; i < 16; ++i)
      data[static_cast<size_t>(rank)].push_back(Numbers::Constant(DataType::kFloat32, 100, i));
  }
  // Rank 0 issues everything at once; the others follow one operation at a time.
  for (Numbers& numbers : data[0]) works.push_back(world.Start(0, AllReduce(numbers), "all-reduce = direct chunk=64"));
  for (size_t i = 0; i < 16; ++i) {
    for (int rank = 1; rank < 3; ++rank) {
      works.push_back(world.Start(rank, AllReduce(data[static_cast<size_t>(rank)][i]), "all-reduce = direct chunk=64"));
    }
    for (int turn = 0; turn < 100; ++turn) {
      for (int rank = 0; rank < 3; ++rank) world.core(rank).Progress();
    }
  }
  ASSERT_TRUE(world.Run());
  for (Work& work : works) ASSERT_EQ(work.Wait(), absl::OkStatus());
  for (const auto& of_rank : data) {
    for (size_t i = 0; i < 16; ++i) EXPECT_EQ(of_rank[i].Value(99), 3.0 * static_cast<double>(i));
  }
}

TEST(Core, ReportsAMismatchOnceAndMovesNothingAfterIt) {
  World world(2, 3);
  Numbers a = Numbers::Constant(DataType::kFloat32, 100, 1);
  Numbers b = Numbers::Constant(DataType::kFloat32, 101, 1);
  Work first = world.Start(0, AllReduce(a));
  Work second = world.Start(1, AllReduce(b));
  ASSERT_TRUE(world.Run());
  const Core& core = world.core(0);
  ASSERT_TRUE(core.trouble().has_value());
  EXPECT_EQ(core.trouble()->kind, Trouble::Kind::kMismatch);
  EXPECT_EQ(core.trouble()->sequence, 1u);
  EXPECT_THAT(std::string(core.trouble()->status.message()), HasSubstr("all-reduce of 100 float32"));
  EXPECT_FALSE(first.Done());  // until there is a verdict
  EXPECT_FALSE(world.core(0).Progress());
  world.core(0).Fail(absl::AbortedError("verdict"));
  EXPECT_EQ(first.Wait(), absl::AbortedError("verdict"));
}

TEST(Core, ReportsALostPeer) {
  World world(3, 5);
  std::vector<Numbers> data(3, Numbers::Constant(DataType::kFloat32, 1000, 1));
  std::vector<Work> works;
  // By an algorithm in which everybody waits for everybody.
  for (int rank = 0; rank < 2; ++rank) {
    works.push_back(world.Start(rank, AllReduce(data[static_cast<size_t>(rank)]), "all-reduce = direct"));
  }
  world.network().Kill(2, absl::UnavailableError("gone"));
  ASSERT_TRUE(world.Run());
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(world.core(rank).trouble().has_value());
    EXPECT_EQ(world.core(rank).trouble()->kind, Trouble::Kind::kPeerLost);
    EXPECT_EQ(world.core(rank).trouble()->peer, 2);
  }
}

TEST(Core, ReportsTheDeadlineOfWhatIsQueuedToo) {
  World world(2, 9);
  std::vector<Numbers> data(2, Numbers::Constant(DataType::kFloat32, 10, 1));
  OperationRequest patient = AllReduce(data[0]);
  OperationRequest hasty = AllReduce(data[1]);
  hasty.timeout = absl::Seconds(1);
  Work first = world.Start(0, patient);
  Work second = world.Start(0, hasty);
  world.core(0).CheckDeadlines(absl::Now());
  EXPECT_FALSE(world.core(0).trouble().has_value());
  EXPECT_LT(world.core(0).NextDeadline(), absl::Now() + absl::Seconds(2));
  world.core(0).CheckDeadlines(absl::Now() + absl::Seconds(2));
  ASSERT_TRUE(world.core(0).trouble().has_value());
  EXPECT_EQ(world.core(0).trouble()->kind, Trouble::Kind::kTimeout);
  EXPECT_EQ(world.core(0).trouble()->sequence, 2u);
}

}  // namespace
}  // namespace tutti
