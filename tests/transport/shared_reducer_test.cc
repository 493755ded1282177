// What SharedReducers of one process make of their operands. This file is built twice: with segments as they are, and
// with each of them mapped once for all ranks (one_mapping_segment.cc), so that ThreadSanitizer sees the whole
// protocol.

#include "src/transport/shm/shared_reducer.h"

#include <atomic>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/transport/reducer_ranks.h"

namespace tutti {
namespace {

using ::testing::Each;

constexpr size_t kMaxCount = 3 * SegmentLayout::kRoundBytes / sizeof(float) + 5;

void OnEachRank(std::vector<std::unique_ptr<ReducerRank>>& ranks, const std::function<void(ReducerRank&)>& body) {
  std::vector<std::thread> threads;
  for (std::unique_ptr<ReducerRank>& rank : ranks) threads.emplace_back(body, std::ref(*rank));
  for (std::thread& thread : threads) thread.join();
}

// An element of a rank's input in one reduction: between -1 and 1.
float Value(int rank, uint32_t reduction, size_t index) {
  uint64_t hash = (static_cast<uint64_t>(rank) << 56) ^ (static_cast<uint64_t>(reduction) << 32) ^ index;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111eb;
  return static_cast<float>(static_cast<int32_t>(hash >> 32)) * 0x1p-31f;
}

// The elements that are not the sum of all ranks' values, as far as single precision can tell.
size_t CountWrong(const float* output, size_t count, int ranks, uint32_t reduction) {
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    double sum = 0, magnitude = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      sum += Value(rank, reduction, i);
      magnitude += std::abs(Value(rank, reduction, i));
    }
    if (!(std::abs(output[i] - sum) <= ranks * magnitude * std::numeric_limits<float>::epsilon())) ++wrong;
  }
  return wrong;
}

// A rank's memory for an input and an output, of its own or from the library.
class Operands {
 public:
  explicit Operands(ReducerRank& rank)
      : own_(2 * kSpace), library_(rank.buffers->Allocate(2 * kSpace * sizeof(float)).value()) {}
  float* input(bool in_library) { return in_library ? static_cast<float*>(library_.get()) + 16 : own_.data() + 3; }
  float* output(bool in_library) { return input(in_library) + kSpace - 16; }

 private:
  static constexpr size_t kSpace = kMaxCount + 32;
  std::vector<float> own_;
  std::shared_ptr<void> library_;
};

struct Placement {
  std::string name;
  bool own_output;
  bool (*in_library)(int rank);
};

const Placement kPlacements[] = {
    {"own memory", false, [](int) { return false; }},
    {"own memory, output apart", true, [](int) { return false; }},
    {"library memory", false, [](int) { return true; }},
    {"library memory, output apart", true, [](int) { return true; }},
    {"mixed", false, [](int rank) { return rank == 0; }},
};

// Around all limits of the ways to reduce, in elements.
std::vector<size_t> CountsFor(int ranks) {
  const size_t post = kPostBytes / sizeof(float);
  const size_t tiny = (size_t{1} << 10) / sizeof(float);
  const size_t inlined = (size_t{16} << 10) / static_cast<size_t>(ranks) / sizeof(float);
  const size_t piece = (size_t{128} << 10) / sizeof(float);
  const size_t round = static_cast<size_t>(ranks) * SegmentLayout(ranks).part_bytes() / sizeof(float);
  return {0,     1,     post,      post + 1,  tiny,      tiny + 1,  inlined - 1,  inlined, inlined + 1, inlined + 17,
          piece, round, piece + 1, round - 1, round + 1, 2 * round, 3 * round + 5};
}

class SharedReducerOfRanks : public testing::TestWithParam<int> {};

TEST_P(SharedReducerOfRanks, SumsWhereverOperandsLieAndWhateverTheirSize) {
  const int count_of_ranks = GetParam();
  std::vector<std::unique_ptr<ReducerRank>> ranks = MakeReducerRanks(count_of_ranks);
  OnEachRank(ranks, [&](ReducerRank& rank) {
    Operands operands(rank);
    uint32_t number = 0;
    for (const Placement& placement : kPlacements) {
      for (const size_t count : CountsFor(count_of_ranks)) {
        ++number;
        const bool in_library = placement.in_library(rank.rank());
        float* const input = operands.input(in_library);
        float* const output = placement.own_output ? operands.output(in_library) : input;
        for (size_t i = 0; i < count; ++i) input[i] = Value(rank.rank(), number, i);
        output[count] = 4711.0f;
        const ReductionSink sink = rank.Reduce(SumOf(input, output, count));
        ASSERT_TRUE(sink.reduced) << placement.name << ", " << count;
        EXPECT_EQ(CountWrong(output, count, count_of_ranks, number), 0u) << placement.name << ", of " << count;
        EXPECT_EQ(output[count], 4711.0f) << placement.name << ", " << count;
        // The memory is its owner's again at once.
        for (size_t i = 0; i < count; ++i) output[i] = std::numeric_limits<float>::quiet_NaN();
      }
    }
  });
}

TEST_P(SharedReducerOfRanks, SurvivesDelaysBetweenAllItsSteps) {
  const int count_of_ranks = GetParam();
  std::vector<std::unique_ptr<ReducerRank>> ranks = MakeReducerRanks(count_of_ranks, [] {
    thread_local std::mt19937 random(std::random_device{}());
    const uint32_t dice = random() % 16;
    if (dice < 2) std::this_thread::yield();
    std::atomic<uint32_t> spent{0};
    while (dice == 3 && spent.fetch_add(1) < random() % 2048) {
    }
  });
  OnEachRank(ranks, [&](ReducerRank& rank) {
    Operands operands(rank);
    const std::vector<size_t> counts = CountsFor(count_of_ranks);
    std::mt19937 shared(11);  // the same choices on all ranks
    for (uint32_t number = 0; number < TUTTI_REDUCTIONS; ++number) {
      const Placement& placement = kPlacements[shared() % std::size(kPlacements)];
      const size_t count = shared() % 16 == 0 ? counts[shared() % counts.size()] : shared() % 3000;
      const bool in_library = placement.in_library(rank.rank());
      float* const input = operands.input(in_library);
      float* const output = placement.own_output ? operands.output(in_library) : input;
      for (size_t i = 0; i < count; ++i) input[i] = Value(rank.rank(), number, i);
      ASSERT_TRUE(rank.Reduce(SumOf(input, output, count)).reduced) << "reduction " << number;
      ASSERT_EQ(CountWrong(output, count, count_of_ranks, number), 0u)
          << "reduction " << number << " of " << count << ", " << placement.name;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, SharedReducerOfRanks, testing::Values(2, 3));

TEST(SharedReducer, TellsBothSidesThatTheyHaveCalledSomethingElse) {
  for (const bool before : {false, true}) {
    std::vector<std::unique_ptr<ReducerRank>> ranks = MakeReducerRanks(2);
    OnEachRank(ranks, [&](ReducerRank& rank) {
      float value = 1;
      SharedReduction reduction = SumOf(&value, &value, 1);
      (before ? reduction.history : reduction.fingerprint) = static_cast<uint64_t>(rank.rank());
      const ReductionSink sink = rank.Reduce(reduction);
      EXPECT_FALSE(sink.reduced);
      ASSERT_TRUE(sink.disagreement.has_value());
      EXPECT_EQ(sink.disagreement->peer, 1 - rank.rank());
      EXPECT_EQ(sink.disagreement->before, before);
    });
  }
}

TEST(SharedReducer, LooksForNeighboursThatCameToACollectiveByMessages) {
  std::vector<std::unique_ptr<ReducerRank>> ranks = MakeReducerRanks(3);
  SharedReducer& reducer = ranks[0]->reducer;
  ReductionSink sink;
  float value = 1;
  SharedReduction reduction = SumOf(&value, &value, 1);
  reduction.sequence = 17;
  reducer.Begin(reduction);
  ranks[2]->board().by_messages.store(16);
  EXPECT_FALSE(reducer.LookForOthers(sink)) << "an earlier one";
  EXPECT_TRUE(reducer.active());
  ranks[2]->board().by_messages.store(17);
  EXPECT_TRUE(reducer.LookForOthers(sink));
  EXPECT_FALSE(reducer.active());
  ASSERT_TRUE(sink.disagreement.has_value());
  EXPECT_EQ(sink.disagreement->peer, 2);
  EXPECT_FALSE(sink.disagreement->before);
}

TEST(SharedReducer, KnowsForWhomItWaits) {
  std::vector<std::unique_ptr<ReducerRank>> ranks = MakeReducerRanks(3);
  ReductionSink sinks[3];
  float values[3] = {1, 2, 4};
  auto begin = [&](size_t rank) { ranks[rank]->reducer.Begin(SumOf(&values[rank], &values[rank], 1)); };
  auto waits_for = [&](int index) { return ranks[0]->reducer.WaitsFor(index); };
  EXPECT_FALSE(waits_for(1));
  begin(0);
  begin(1);
  ranks[0]->reducer.Advance(sinks[0]);
  EXPECT_FALSE(waits_for(1));
  EXPECT_TRUE(waits_for(2));
  EXPECT_FALSE(ranks[0]->reducer.CanAdvance());
  begin(2);
  EXPECT_FALSE(waits_for(2));
  for (size_t rank : {0u, 1u, 2u}) {
    EXPECT_TRUE(ranks[rank]->reducer.CanAdvance());
    while (ranks[rank]->reducer.Advance(sinks[rank])) {
    }
    EXPECT_TRUE(sinks[rank].reduced);
    EXPECT_FALSE(ranks[rank]->reducer.CanAdvance());
  }
  EXPECT_THAT(values, Each(7.0f));
}

TEST(SharedReducer, WakesWhoSleeps) {
  std::vector<std::unique_ptr<ReducerRank>> ranks = MakeReducerRanks(2);
  ranks[1]->board().asleep.store(1);
  float value = 1;
  ranks[0]->reducer.Begin(SumOf(&value, &value, 1));
  EXPECT_EQ(ranks[1]->board().asleep.load(), 0u);
}

}  // namespace
}  // namespace tutti
