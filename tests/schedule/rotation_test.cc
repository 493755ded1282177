// Which schedules look alike from every rank, and whether the verifier, which then looks at one of them, still sees
// what is wrong with all.

#include "src/schedule/rotation.h"

#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "src/schedule/schedule_builder.h"
#include "tests/schedule/faults.h"
#include "tests/schedule/schedules.h"

namespace tutti {
namespace {

bool DoLookAlike(const std::vector<Schedule>& schedules) {
  return LookAlike(static_cast<int>(schedules.size()), [&](int rank) -> const Schedule& { return schedules[rank]; });
}

bool IsCircular(const ScheduleKey& key) {
  return key.algorithm == Algorithm::kRing || key.collective == Collective::kAllToAll ||
         key.collective == Collective::kAllGather;
}

TEST(RotationTest, RingsAllGathersAndAllToAllsLookAlike) {
  for (const int size : {2, 3, 4, 7, 8, 13}) {
    for (const ScheduleKey& key : AllKeys(size)) {
      EXPECT_EQ(DoLookAlike(BuildAll(key)), IsCircular(key)) << ToString(key);
    }
  }
}

// Every rank begins with its own input: right on rank 0 alone.
TEST(RotationTest, SumThatBeginsWithTheOwnInputIsRefused) {
  constexpr uint32_t kSize = 3;
  std::vector<Schedule> schedules;
  for (uint32_t rank = 0; rank < kSize; ++rank) {
    ScheduleBuilder builder({Collective::kReduceScatter, Algorithm::kDirect, kSize, static_cast<int>(rank)}, kSize);
    for (uint32_t d = 1; d < kSize; ++d) {
      const uint32_t peer = (rank + d) % kSize;
      builder.Send({kInput, peer}, static_cast<int>(peer));
    }
    std::vector<Operand> sources = {{kInput, rank}};
    for (uint32_t d = 1; d < kSize; ++d) {
      sources.push_back({builder.AddPlane(0, kSize), rank});
      builder.Recv(static_cast<int>((rank + d) % kSize), sources.back());
    }
    builder.ReduceFinal(sources, {kOutput, rank});
    schedules.push_back(std::move(builder).Build());
  }
  EXPECT_FALSE(DoLookAlike(schedules));
  EXPECT_FALSE(Verify(schedules).ok());
}

TEST(RotationTest, OneRankThatDiffersIsSeen) {
  const std::vector<Schedule> good = BuildAll({Collective::kReduceScatter, Algorithm::kRing, 4});
  ASSERT_TRUE(DoLookAlike(good));
  const std::function<void(Schedule&)> kChanges[] = {
      [](Schedule& s) { s.rank = 3; },
      [](Schedule& s) { s.root = 1; },
      [](Schedule& s) { s.wide = true; },
      [](Schedule& s) { s.algorithm = Algorithm::kDirect; },
      [](Schedule& s) {
        s.planes.push_back({0, 4});
      },
      [](Schedule& s) { s.planes[0].count = 3; },
      [](Schedule& s) { s.steps.pop_back(); },
      [](Schedule& s) { s.steps[0].kind = StepKind::kRecv; },
      [](Schedule& s) { s.steps[0].peer = 0; },
      [](Schedule& s) { s.steps[0].peer += 4; },
      [](Schedule& s) { s.steps[0].operand.space = kOutput; },
      [](Schedule& s) { s.steps[0].operand.first ^= 1; },
      [](Schedule& s) { s.steps[0].operand.first += 4; },
      [](Schedule& s) { s.steps[0].operand.count = 2; },
      [](Schedule& s) { s.steps[2].final = true; },
      [](Schedule& s) { ++s.steps[2].first_source; },
      [](Schedule& s) { --s.steps[2].source_count; },
      [](Schedule& s) { ++s.steps[2].first_successor; },
      [](Schedule& s) { --s.steps[2].successor_count; },
      [](Schedule& s) { ++s.steps[2].dependencies; },
      [](Schedule& s) { std::swap(s.sources[0], s.sources[1]); },
      [](Schedule& s) { s.sources.pop_back(); },
      [](Schedule& s) { ++s.successors[0]; },
  };
  for (size_t i = 0; i < std::size(kChanges); ++i) {
    std::vector<Schedule> changed = good;
    kChanges[i](changed[2]);
    EXPECT_FALSE(DoLookAlike(changed)) << "change " << i;
  }
}

// --- The same fault on all ranks. ---

bool MovesToTheNextSlice(Schedule& schedule, uint32_t step) {
  uint32_t& first = schedule.steps[step].operand.first;
  first = (first + 1) % schedule.slices;
  return schedule.slices > 1;
}

bool WaitsForNothing(Schedule& schedule, uint32_t step) {
  if (schedule.steps[step].successor_count == 0) return false;
  for (const uint32_t successor : schedule.SuccessorsOf(schedule.steps[step])) --schedule.steps[successor].dependencies;
  schedule.steps[step].successor_count = 0;
  return true;
}

// A plane that nobody uses: the schedules do not look alike, and nothing else has changed.
std::vector<Schedule> Unlike(std::vector<Schedule> schedules) {
  schedules[0].planes.push_back({0, schedules[0].slices});
  return schedules;
}

TEST(RotationTest, FaultsThatAllRanksHaveAreRefused) {
  const Fault kFaults[] = {{"other peer", GoesToAnotherPeer},
                           {"sources swapped", SwapsSources},
                           {"final flipped", FlipsFinal},
                           {"other slice", MovesToTheNextSlice},
                           {"followers do not wait", WaitsForNothing}};
  int refused = 0;
  for (const int size : {2, 3, 4, 5, 8}) {
    for (const ScheduleKey& key : AllKeys(size)) {
      const std::vector<Schedule> good = BuildAll(key);
      if (!DoLookAlike(good)) continue;
      for (uint32_t step = 0; step < good[0].steps.size(); ++step) {
        for (const Fault& fault : kFaults) {
          std::vector<Schedule> bad = good;
          bool made = true;
          for (Schedule& schedule : bad) made = made && fault.make(schedule, step);
          if (!made) continue;
          EXPECT_TRUE(DoLookAlike(bad));
          const absl::Status status = Verify(bad);
          EXPECT_EQ(status.ok(), Verify(Unlike(bad)).ok())
              << ToString(key) << ", step " << step << " " << fault.name << ": " << status;
          refused += !status.ok();
        }
      }
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(RotationTest, OneRankCountsWhatAllDo) {
  for (const int size : {2, 3, 5, 8, 13}) {
    for (const ScheduleKey& key : AllKeys(size)) {
      const std::vector<Schedule> schedules = BuildAll(key);
      if (!DoLookAlike(schedules)) continue;
      ScheduleCounts one, all;
      ASSERT_EQ(Verify(schedules, &one), absl::OkStatus()) << ToString(key);
      ASSERT_EQ(Verify(Unlike(schedules), &all), absl::OkStatus()) << ToString(key);
      EXPECT_EQ(one.messages_sent, all.messages_sent) << ToString(key);
      EXPECT_EQ(one.slices_sent, all.slices_sent) << ToString(key);
      EXPECT_EQ(one.peers, all.peers) << ToString(key);
      EXPECT_EQ(one.depth, all.depth) << ToString(key);
    }
  }
}

// Each sends before it receives, and nothing is buffered: rank 0 waits for itself, as it were.
TEST(RotationTest, CircleOfRanksThatWaitForOneAnotherIsRefused) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < 3; ++rank) {
    ScheduleBuilder builder({Collective::kAllGather, Algorithm::kRing, 3, rank}, 3);
    const auto block = [&](int after) { return static_cast<uint32_t>((rank + after) % 3); };
    builder.Copy({kInput, block(0)}, {kOutput, block(0)});
    uint32_t before = builder.Send({kOutput, block(0)}, (rank + 1) % 3);
    for (int i = 1; i < 3; ++i) {
      const uint32_t recv = builder.Recv((rank + 2) % 3, {kOutput, block(3 - i)});
      builder.Order(before, recv);
      if (i < 2) before = builder.Send({kOutput, block(3 - i)}, (rank + 1) % 3);
    }
    schedules.push_back(std::move(builder).Build());
  }
  EXPECT_TRUE(DoLookAlike(schedules));
  const absl::Status status = Verify(schedules);
  EXPECT_NE(status.message().find("deadlock"), absl::string_view::npos) << status;
}

}  // namespace
}  // namespace tutti
