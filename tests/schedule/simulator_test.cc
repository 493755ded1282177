// Times worked out by hand, and what must hold of all.

#include "src/schedule/simulator.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/schedule/schedule_builder.h"
#include "tests/schedule/schedules.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

// Numbers that cannot be mistaken for one another.
constexpr CostModel kCosts = {.wire_latency_us = 1000,
                              .send_overhead_us = 10,
                              .recv_overhead_us = 20,
                              .send_us_per_byte = 0.5,
                              .recv_us_per_byte = 0.5};

// `bytes` of the operand or a block, in one segment.
SimulatedOperation Whole(uint64_t bytes) { return {.count = bytes, .segment_count = std::max<uint64_t>(1, bytes)}; }

absl::StatusOr<Prediction> SimulateAll(const std::vector<Schedule>& schedules, const SimulatedOperation& operation,
                                       const CostModel& costs) {
  return Simulate(
      static_cast<int>(schedules.size()), [&](int rank) -> const Schedule& { return schedules[rank]; }, operation,
      costs);
}

double TimeOf(const ScheduleKey& key, const SimulatedOperation& operation, const CostModel& costs) {
  const absl::StatusOr<Prediction> prediction = SimulateAll(BuildAll(key), operation, costs);
  EXPECT_TRUE(prediction.ok()) << ToString(key) << ": " << prediction.status();
  return prediction.ok() ? prediction->time_us : -1;
}

std::vector<Schedule> OneMessage() {
  return {Build({Collective::kSend, Algorithm::kPair, 2, 0, 1}, 0),
          Build({Collective::kRecv, Algorithm::kPair, 2, 0, 0}, 1)};
}

double TimeOfOneMessage(const SimulatedOperation& operation, const CostModel& costs) {
  const absl::StatusOr<Prediction> prediction = SimulateAll(OneMessage(), operation, costs);
  EXPECT_TRUE(prediction.ok()) << prediction.status();
  return prediction.ok() ? prediction->time_us : -1;
}

TEST(SimulatorTest, OneMessageCostsOverheadsPortAndWire) {
  EXPECT_DOUBLE_EQ(TimeOfOneMessage(Whole(0), kCosts), 10 + 1000 + 20);
  EXPECT_DOUBLE_EQ(TimeOfOneMessage(Whole(100), kCosts), 10 + 1000 + 100 * 0.5 + 20);
}

TEST(SimulatorTest, SlowerPortDecides) {
  CostModel costs = kCosts;
  costs.recv_us_per_byte = 2;
  EXPECT_DOUBLE_EQ(TimeOfOneMessage(Whole(100), costs), 10 + 1000 + 100 * 2 + 20);
  costs.send_us_per_byte = 3;
  EXPECT_DOUBLE_EQ(TimeOfOneMessage(Whole(100), costs), 10 + 1000 + 100 * 3 + 20);
}

TEST(SimulatorTest, ThreadsCopyEachByteAtBothEnds) {
  CostModel costs = kCosts;
  costs.copy_us_per_byte = 4;
  EXPECT_DOUBLE_EQ(TimeOfOneMessage(Whole(100), costs), (10 + 400) + 1000 + 50 + (20 + 400));
}

TEST(SimulatorTest, CountsMessagesBytesAndPeersOfTheBusiestRank) {
  const absl::StatusOr<Prediction> pair = SimulateAll(OneMessage(), {.count = 100, .segment_count = 30}, kCosts);
  ASSERT_TRUE(pair.ok()) << pair.status();
  EXPECT_EQ(pair->messages_sent, 4u);
  EXPECT_EQ(pair->bytes_sent, 100u);
  EXPECT_EQ(pair->peers, 1u);
  const absl::StatusOr<Prediction> scatter =
      SimulateAll(BuildAll({Collective::kScatter, Algorithm::kDirect, 5}), Whole(7), kCosts);
  ASSERT_TRUE(scatter.ok()) << scatter.status();
  EXPECT_EQ(scatter->messages_sent, 4u);
  EXPECT_EQ(scatter->bytes_sent, 28u);
  EXPECT_EQ(scatter->peers, 4u);
}

// Each rank sends its block, 10 + 50 us, and on arrival the other one.
TEST(SimulatorTest, RingOfThreeTakesTwoHops) {
  EXPECT_DOUBLE_EQ(TimeOf({Collective::kAllGather, Algorithm::kRing, 3}, Whole(100), kCosts),
                   2 * (10 + 1000 + 50 + 20));
}

// Both blocks begin to arrive at 1010; the second passes the root's port behind the first.
TEST(SimulatorTest, MessagesQueueAtABusyPort) {
  EXPECT_DOUBLE_EQ(TimeOf({Collective::kGather, Algorithm::kDirect, 3}, Whole(100), kCosts), 10 + 1000 + 2 * 50 + 20);
}

// The second message is ready at 20 but leaves behind the first, at 10 + 50.
TEST(SimulatorTest, MessagesQueueAtTheSendersPort) {
  EXPECT_DOUBLE_EQ(TimeOf({Collective::kScatter, Algorithm::kDirect, 3}, Whole(100), kCosts), 10 + 50 + 1000 + 50 + 20);
}

// The root serves position 2 first, which serves 3; then position 1. With 1000 us of wire the longer way is the last.
TEST(SimulatorTest, BroadcastGoesDownTheTree) {
  const ScheduleKey key = {Collective::kBroadcast, Algorithm::kTree, 4};
  EXPECT_DOUBLE_EQ(TimeOf(key, Whole(0), kCosts), 2 * (10 + 1000 + 20));
  CostModel near = kCosts;
  near.wire_latency_us = 0;
  // 0 -> 2 at 10, received at 30; 2 -> 3 at 40, received at 60; 0 -> 1 at 20, received at 40.
  EXPECT_DOUBLE_EQ(TimeOf(key, Whole(0), near), 60);
}

TEST(SimulatorTest, ReductionCostsEachSource) {
  CostModel costs = kCosts;
  costs.reduce_us_per_byte = 3;
  // Both inputs are through the root's port 50 us apart, so that only the second one's overhead counts.
  EXPECT_DOUBLE_EQ(TimeOf({Collective::kReduce, Algorithm::kGather, 3}, Whole(100), costs),
                   10 + 1000 + 2 * 50 + 20 + 3 * 100 * 3);
}

TEST(SimulatorTest, WideMessagesCarryAccumulators) {
  const ScheduleKey key = {Collective::kAllReduce, Algorithm::kDoubling, 2, 0, 0, /*wide=*/true};
  const SimulatedOperation operation = {.count = 100, .element_bytes = 2, .accumulator_bytes = 4, .segment_count = 100};
  EXPECT_DOUBLE_EQ(TimeOf(key, operation, kCosts), 10 + 1000 + 100 * 4 * 0.5 + 20);
}

// Both send at once, unless there is one core for both.
TEST(SimulatorTest, ThreadsShareCores) {
  CostModel costs = kCosts;
  costs.wire_latency_us = 0;
  const ScheduleKey key = {Collective::kBarrier, Algorithm::kBruck, 2};
  EXPECT_DOUBLE_EQ(TimeOf(key, Whole(0), costs), 10 + 20);
  costs.cores = 2;
  EXPECT_DOUBLE_EQ(TimeOf(key, Whole(0), costs), 10 + 20);
  costs.cores = 1;
  EXPECT_DOUBLE_EQ(TimeOf(key, Whole(0), costs), 2 * (10 + 20));
}

// The core runs rank 0's send, turns to rank 1 for its send and receive, and back for rank 0's receive.
TEST(SimulatorTest, CoreThatTurnsToAnotherRankTakesLonger) {
  CostModel costs = kCosts;
  costs.wire_latency_us = 0;
  costs.turn_us = 5;
  costs.turn_us_per_byte = 0.1;
  const ScheduleKey key = {Collective::kBarrier, Algorithm::kBruck, 2};
  costs.cores = 1;
  EXPECT_DOUBLE_EQ(TimeOf(key, Whole(0), costs), 10 + (5 + 10 + 20) + (5 + 20));
  EXPECT_DOUBLE_EQ(TimeOfOneMessage(Whole(100), costs), 10 + 100 * 0.5 + (5 + 100 * 0.1) + 20);
  // Nobody turns where each has a core to go back to.
  costs.cores = 2;
  EXPECT_DOUBLE_EQ(TimeOf(key, Whole(0), costs), 10 + 20);
  EXPECT_DOUBLE_EQ(TimeOfOneMessage(Whole(100), costs), 10 + 100 * 0.5 + 20);
  costs.cores = 0;
  EXPECT_DOUBLE_EQ(TimeOfOneMessage(Whole(100), costs), 10 + 100 * 0.5 + 20);
}

// Four segments of 100 bytes: overheads and ports of one overlap with those of others, 50 us each at the narrowest.
TEST(SimulatorTest, SegmentsFollowOneAnother) {
  SimulatedOperation operation = {.count = 400, .segment_count = 100};
  EXPECT_DOUBLE_EQ(TimeOfOneMessage(operation, kCosts), 10 + 4 * 50 + 1000 + 20);
  // One at a time: the next begins when one has left.
  operation.window = 1;
  EXPECT_DOUBLE_EQ(TimeOfOneMessage(operation, kCosts), 4 * (10 + 50) + 1000 + 20);
}

// Rank 0's message is at rank 1 long before rank 2's, which is to be received first.
TEST(SimulatorTest, MessageWaitsUntilItsReceiveMayBegin) {
  const ScheduleKey key = {Collective::kBarrier, Algorithm::kBruck, 3};
  ScheduleBuilder early(key, 1);
  early.Send({kInput}, 1);
  ScheduleBuilder receiver({Collective::kBarrier, Algorithm::kBruck, 3, 1}, 1);
  const auto first = receiver.Recv(2, {receiver.AddPlane(0, 1)});
  receiver.Order(first, receiver.Recv(0, {receiver.AddPlane(0, 1)}));
  ScheduleBuilder late({Collective::kBarrier, Algorithm::kBruck, 3, 2}, 1);
  const Operand sum = {late.AddPlane(0, 1)};
  late.Reduce({{kInput}}, sum);
  late.Send(sum, 1);
  CostModel costs = kCosts;
  costs.reduce_us_per_byte = 7;
  const absl::StatusOr<Prediction> prediction =
      SimulateAll({std::move(early).Build(), std::move(receiver).Build(), std::move(late).Build()}, Whole(100), costs);
  ASSERT_TRUE(prediction.ok()) << prediction.status();
  EXPECT_DOUBLE_EQ(prediction->time_us, 700 + 10 + 1000 + 50 + 20 + 20);
}

TEST(SimulatorTest, EveryScheduleEndsAndSendsWhatItsStepsSay) {
  for (const int size : {1, 2, 3, 6, 8, 13}) {
    for (const ScheduleKey& key : AllKeys(size)) {
      const std::vector<Schedule> schedules = BuildAll(key);
      ScheduleCounts counts;
      ASSERT_EQ(Verify(schedules, &counts), absl::OkStatus());
      const absl::StatusOr<Prediction> prediction =
          SimulateAll(schedules, {.count = 5000, .segment_count = 1000}, kCosts);
      ASSERT_TRUE(prediction.ok()) << ToString(key) << ": " << prediction.status();
      EXPECT_EQ(prediction->messages_sent, 5 * counts.messages_sent) << ToString(key);
      EXPECT_EQ(prediction->peers, counts.peers) << ToString(key);
      EXPECT_GE(prediction->time_us, counts.depth * (10 + 1000 + 20.0)) << ToString(key);
    }
  }
}

TEST(SimulatorTest, DearerIsNeverFaster) {
  for (const int size : {2, 5, 8}) {
    for (const ScheduleKey& key : AllKeys(size)) {
      // Everything twice as dear takes twice as long.
      CostModel twice = kCosts;
      for (double CostModel::*cost :
           {&CostModel::wire_latency_us, &CostModel::send_overhead_us, &CostModel::recv_overhead_us,
            &CostModel::send_us_per_byte, &CostModel::recv_us_per_byte}) {
        twice.*cost *= 2;
      }
      const double time = TimeOf(key, Whole(1000), kCosts);
      EXPECT_DOUBLE_EQ(TimeOf(key, Whole(1000), twice), 2 * time) << ToString(key);
      EXPECT_GE(TimeOf(key, Whole(2000), kCosts), time) << ToString(key);
      CostModel one_core = kCosts;
      one_core.cores = 1;
      EXPECT_GE(TimeOf(key, Whole(1000), one_core), time) << ToString(key);
    }
  }
}

TEST(SimulatorTest, SameArgumentsGiveTheSameTime) {
  const ScheduleKey key = {Collective::kAllReduce, Algorithm::kDirect, 13};
  const double time = TimeOf(key, {.count = 12345, .segment_count = 1000}, kCosts);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(TimeOf(key, {.count = 12345, .segment_count = 1000}, kCosts), time);
}

TEST(SimulatorTest, RefusesSchedulesThatDoNotFitTogether) {
  std::vector<Schedule> schedules = OneMessage();
  schedules[1].steps.clear();
  absl::Status status = SimulateAll(schedules, Whole(1), kCosts).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 0 sends a message that rank 1 does not receive"));
  schedules = OneMessage();
  schedules[0].steps.clear();
  status = SimulateAll(schedules, Whole(1), kCosts).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 waits for a message that rank 0 does not send"));
  schedules = OneMessage();
  ++schedules[0].steps[0].dependencies;
  status = SimulateAll(schedules, Whole(1), kCosts).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("the schedule of rank 0 never ends"));
  schedules = OneMessage();
  std::swap(schedules[0], schedules[1]);
  status = SimulateAll(schedules, Whole(1), kCosts).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("this is the schedule of rank 1 of 2, not of 0 of 2"));
  EXPECT_FALSE(SimulateAll(OneMessage(), {.count = 1, .segment_count = 0}, kCosts).ok());
}

TEST(SimulatorTest, PredictsThousandsOfRanks) {
  const auto time_of = [](ScheduleKey key) {
    Schedule current;
    const absl::StatusOr<Prediction> prediction = Simulate(
        key.size,
        [&](int rank) -> const Schedule& {
          current = Build(key, rank);
          return current;
        },
        Whole(0), kCosts);
    EXPECT_TRUE(prediction.ok()) << prediction.status();
    return prediction.ok() ? prediction->time_us : -1;
  };
  // Twelve phases, in each of which everybody sends and receives one message; or six of three messages, of which the
  // first arrives while the others are being sent.
  EXPECT_DOUBLE_EQ(time_of({Collective::kAllReduce, Algorithm::kDoubling, 4096}), 12 * (10 + 1000 + 20.0));
  EXPECT_DOUBLE_EQ(time_of({Collective::kAllReduce, Algorithm::kQuadrupling, 4096}), 6 * (10 + 1000 + 3 * 20.0));
  EXPECT_DOUBLE_EQ(time_of({Collective::kAllReduce, Algorithm::kHalving, 1024}), 20 * (10 + 1000 + 20.0));
  EXPECT_DOUBLE_EQ(time_of({Collective::kReduce, Algorithm::kTree, 4096}), 12 * (10 + 1000 + 20.0));
}

}  // namespace
}  // namespace tutti
