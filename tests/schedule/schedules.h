// The schedules of all ranks, for tests.

#ifndef TUTTI_TESTS_SCHEDULE_SCHEDULES_H_
#define TUTTI_TESTS_SCHEDULE_SCHEDULES_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "src/schedule/builders.h"
#include "src/schedule/verifier.h"

namespace tutti {

inline std::string ToString(const ScheduleKey& key) {
  return absl::StrCat(Name(key.collective), " by ", Name(key.algorithm), ", ", key.size, " ranks, root ", key.root,
                      key.wide ? ", wide" : "");
}

// Every schedule that exists for so many ranks, but for the rank; broadcasts from the first, a middle and the last
// rank.
inline std::vector<ScheduleKey> AllKeys(int size) {
  std::vector<ScheduleKey> keys;
  for (const Collective collective : {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather,
                                      Collective::kBroadcast, Collective::kBarrier}) {
    for (const Algorithm algorithm : AlgorithmsOf(collective)) {
      ScheduleKey key = {.collective = collective, .algorithm = algorithm, .size = size};
      if (!BuildSchedule(key).ok()) continue;  // too many ranks for this algorithm
      keys.push_back(key);
      key.wide = true;
      if (BuildSchedule(key).ok()) keys.push_back(key);
      key.wide = false;
      if (collective != Collective::kBroadcast || size == 1) continue;
      key.root = size - 1;
      keys.push_back(key);
      key.root = size / 2;
      if (size > 2) keys.push_back(key);
    }
  }
  return keys;
}

inline Schedule Build(ScheduleKey key, int rank) {
  key.rank = rank;
  absl::StatusOr<Schedule> schedule = BuildSchedule(key);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return *std::move(schedule);
}

inline std::vector<Schedule> BuildAll(const ScheduleKey& key) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < key.size; ++rank) schedules.push_back(Build(key, rank));
  return schedules;
}

inline absl::Status Verify(const std::vector<Schedule>& schedules, ScheduleCounts* counts = nullptr) {
  return VerifySchedules(
      static_cast<int>(schedules.size()), [&](int rank) -> const Schedule& { return schedules[rank]; }, counts);
}

// Builds each rank's schedule when it is looked at, so that many ranks take little memory.
inline absl::Status VerifyKey(const ScheduleKey& key, ScheduleCounts* counts = nullptr) {
  Schedule current;
  return VerifySchedules(
      key.size,
      [&](int rank) -> const Schedule& {
        current = Build(key, rank);
        return current;
      },
      counts);
}

}  // namespace tutti

#endif  // TUTTI_TESTS_SCHEDULE_SCHEDULES_H_
