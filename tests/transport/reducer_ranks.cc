#include "tests/transport/reducer_ranks.h"

#include <fcntl.h>
#include <sys/eventfd.h>

#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "src/transport/shm/local_socket.h"

namespace tutti {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(50);

}  // namespace

MessageSink::Delivery ReductionSink::Arrived(int, Channel, const MessageTag&, uint64_t) {
  ADD_FAILURE() << "a message";
  return {};
}
void ReductionSink::Received(int, Channel, const MessageTag&) { ADD_FAILURE() << "a message"; }
void ReductionSink::Sent(uint64_t) { ADD_FAILURE() << "a message"; }
void ReductionSink::PeerLost(int peer, absl::Status why) { ADD_FAILURE() << "lost " << peer << ": " << why; }

ReducerRank::ReducerRank(Neighbourhood met, const SegmentLayout& made_layout, std::function<void()> pause)
    : neighbourhood(std::move(met)),
      layout(made_layout),
      reducer(neighbourhood, layout, exchange,
              pause == nullptr ? absl::AnyInvocable<void()>() : absl::AnyInvocable<void()>(std::move(pause))) {}

ReductionSink ReducerRank::Reduce(const SharedReduction& reduction) {
  ReductionSink sink;
  const absl::Time deadline = absl::Now() + kPatience;
  reducer.Begin(reduction);
  while (reducer.active()) {
    if (reducer.Advance(sink)) continue;
    if (absl::Now() > deadline) {
      ADD_FAILURE() << "rank " << rank() << " waits in vain";
      break;
    }
    std::this_thread::yield();
  }
  return sink;
}

std::vector<std::unique_ptr<ReducerRank>> MakeReducerRanks(int count, const std::function<void()>& pause) {
  const SegmentLayout layout(count);
  std::vector<LocalListener> listeners;
  std::vector<ShmNeighbour> neighbours;
  for (int rank = 0; rank < count; ++rank) {
    listeners.push_back(ListenLocally().value());
    neighbours.push_back({.rank = rank, .address = listeners.back().name});
  }
  std::vector<std::unique_ptr<ReducerRank>> ranks(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      NeighbourhoodOptions options;
      options.neighbours = neighbours;
      options.rank = rank;
      options.group = 4711;
      options.listener = std::move(listeners[static_cast<size_t>(rank)].socket);
      options.doorbell = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
      options.segment_bytes = layout.bytes();
      options.deadline = absl::Now() + kPatience;
      absl::StatusOr<Neighbourhood> met = Neighbourhood::Meet(std::move(options));
      ASSERT_TRUE(met.ok()) << met.status();
      ranks[static_cast<size_t>(rank)] = std::make_unique<ReducerRank>(*std::move(met), layout, pause);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ranks;
}

SharedReduction SumOf(const float* input, float* output, size_t count) {
  SharedReduction reduction;
  reduction.sequence = 1;
  reduction.input = input;
  reduction.output = output;
  reduction.count = count;
  reduction.element_bytes = sizeof(float);
  reduction.reduce = KernelsFor(DataType::kFloat32, ReduceOp::kSum).reduce;
  return reduction;
}

}  // namespace tutti
