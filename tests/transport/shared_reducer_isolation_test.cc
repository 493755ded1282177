// A neighbour that is stopped while it writes to this rank's memory, and goes on when the group is gone.

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/transport/reducer_ranks.h"

namespace tutti {
namespace {

using ::testing::Each;

constexpr size_t kCount = 200000;
constexpr absl::Duration kPatience = absl::Seconds(30);

// Where somebody is stopped.
struct Barrier {
  absl::Notification reached, open;
  void Pass() {
    if (reached.HasBeenNotified()) return;
    reached.Notify();
    EXPECT_TRUE(open.WaitForNotificationWithTimeout(kPatience));
  }
};

Barrier* in_kernel = nullptr;
std::atomic<int> kernel_calls = 0;

void ReduceAndStop(void* dst, const void* const* sources, size_t source_count, size_t count, double divisor) {
  ++kernel_calls;
  if (in_kernel != nullptr) in_kernel->Pass();
  KernelsFor(DataType::kFloat32, ReduceOp::kSum).reduce(dst, sources, source_count, count, divisor);
}

// A rank with an input and an output in buffers of the library.
struct Member {
  explicit Member(ReducerRank& rank, float value, bool apart) {
    const size_t bytes = kCount * sizeof(float);
    input_buffer = rank.buffers->Allocate(bytes).value();
    output_buffer = apart ? rank.buffers->Allocate(bytes).value() : input_buffer;
    std::fill_n(input(), kCount, value);
  }
  float* input() { return static_cast<float*>(input_buffer.get()); }
  float* output() { return static_cast<float*>(output_buffer.get()); }
  absl::Span<const float> inputs() { return {input(), kCount}; }
  absl::Span<const float> outputs() { return {output(), kCount}; }
  SharedReduction Sum(ReduceFunction reduce) {
    SharedReduction reduction = SumOf(input(), output(), kCount);
    reduction.reduce = reduce;
    return reduction;
  }
  std::shared_ptr<void> input_buffer, output_buffer;
};

void AdvanceUntil(ReducerRank& rank, ReductionSink& sink, const std::function<bool()>& done) {
  const absl::Time deadline = absl::Now() + kPatience;
  while (!done()) {
    ASSERT_LT(absl::Now(), deadline);
    if (!rank.reducer.Advance(sink)) std::this_thread::yield();
  }
}

class SharedReducerIsolation : public testing::TestWithParam<bool> {
 protected:
  // Rank 1 is stopped at the barrier; then rank 0 leaves, puts something else into its memory, and rank 1 goes on.
  void LeaveWhileTheOtherIsStoppedAt(Barrier& barrier) {
    Member members[] = {Member(*ranks_[0], 1, GetParam()), Member(*ranks_[1], 2, GetParam())};
    std::thread other([&] {
      ReductionSink sink;
      ranks_[1]->reducer.Begin(members[1].Sum(ReduceAndStop));
      AdvanceUntil(*ranks_[1], sink, [&] { return barrier.reached.HasBeenNotified(); });
      EXPECT_FALSE(sink.reduced);
    });
    ReductionSink sink;
    ranks_[0]->reducer.Begin(members[0].Sum(KernelsFor(DataType::kFloat32, ReduceOp::kSum).reduce));
    EXPECT_TRUE(barrier.reached.WaitForNotificationWithTimeout(kPatience));
    while (ranks_[0]->reducer.Advance(sink)) {
    }
    EXPECT_FALSE(sink.reduced);
    const std::shared_ptr<BufferRegistry> registry = ranks_[0]->buffers;
    const absl::Time start = absl::Now();
    ranks_[0].reset();
    EXPECT_LT(absl::Now() - start, absl::Seconds(10));
    std::fill_n(members[0].input(), kCount, 7.0f);
    std::fill_n(members[0].output(), kCount, 7.0f);
    barrier.open.Notify();
    other.join();
    EXPECT_THAT(members[0].inputs(), Each(7.0f));
    EXPECT_THAT(members[0].outputs(), Each(7.0f));
    EXPECT_EQ(registry->Find(members[0].input(), 1).value().id, 0u);
    EXPECT_EQ(registry->Find(members[0].output(), 1).value().id, 0u);
  }

  std::vector<std::unique_ptr<ReducerRank>> ranks_;
};

TEST_P(SharedReducerIsolation, KeepsOffWhoGoesOnInTheMiddleOfAPiece) {
  Barrier barrier;
  in_kernel = &barrier;
  kernel_calls = 0;
  ranks_ = MakeReducerRanks(2);
  LeaveWhileTheOtherIsStoppedAt(barrier);
  in_kernel = nullptr;
  EXPECT_GT(kernel_calls, 0);
}

TEST_P(SharedReducerIsolation, WhoGoesOnBeforeItHasBegunToWriteDoesNotBegin) {
  Barrier barrier;
  kernel_calls = 0;
  std::atomic<Board*> board = nullptr;
  ranks_ = MakeReducerRanks(2, [&, self = std::this_thread::get_id()] {
    Board* const watched = board.load();
    if (watched != nullptr && watched->busy.load() != 0 && std::this_thread::get_id() != self) barrier.Pass();
  });
  board = &ranks_[1]->board();
  LeaveWhileTheOtherIsStoppedAt(barrier);
  EXPECT_EQ(kernel_calls, 0);
}

INSTANTIATE_TEST_SUITE_P(Output, SharedReducerIsolation, testing::Bool(),
                         [](const auto& apart) { return apart.param ? "Apart" : "InPlace"; });

// It cannot write any more.
TEST(SharedReducerEnd, IsolatesNothingFromWhoHasDied) {
  std::vector<std::unique_ptr<ReducerRank>> ranks = MakeReducerRanks(2);
  Member member(*ranks[0], 1, false);
  ranks[0]->reducer.Begin(member.Sum(KernelsFor(DataType::kFloat32, ReduceOp::kSum).reduce));
  ranks[1]->board().busy.store(1);
  ranks[1].reset();
  const std::shared_ptr<BufferRegistry> registry = ranks[0]->buffers;
  ranks[0].reset();
  EXPECT_NE(registry->Find(member.input(), 1).value().id, 0u);
}

}  // namespace
}  // namespace tutti
