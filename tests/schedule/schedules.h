// The schedules of all ranks, for tests.

#ifndef TUTTI_TESTS_SCHEDULE_SCHEDULES_H_
#define TUTTI_TESTS_SCHEDULE_SCHEDULES_H_

#include <cmath>
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
                      key.wide ? ", wide" : "",
                      key.ranks_per_host > 1 ? absl::StrCat(", ", key.ranks_per_host, " a host") : "");
}

// All but send and recv, which take two different schedules.
inline constexpr Collective kCollectives[] = {
    Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather,
    Collective::kBroadcast, Collective::kReduce,        Collective::kGather,
    Collective::kScatter,   Collective::kAllToAll,      Collective::kBarrier};

inline bool HasRoot(Collective collective) {
  return collective == Collective::kBroadcast || collective == Collective::kReduce ||
         collective == Collective::kGather || collective == Collective::kScatter;
}

// On so many ranks, one value that means no hosts, or all that do. Of more than 64 ranks, 8 a host, or else nearly as
// many as there are hosts.
inline std::vector<int> RanksPerHost(Algorithm algorithm, int size) {
  if (algorithm != Algorithm::kHierarchical) return {1};
  if (size > 64) {
    int ranks = 8;
    if (size % ranks != 0) ranks = static_cast<int>(std::sqrt(size));
    while (size % ranks != 0) --ranks;
    return {ranks};
  }
  std::vector<int> all;
  for (int ranks = 2; ranks < size; ++ranks) all.push_back(ranks);
  return all;
}

// Every schedule that exists for so many ranks, but for the rank; with the first, a middle and the last rank as root.
inline std::vector<ScheduleKey> AllKeys(int size) {
  std::vector<ScheduleKey> keys;
  for (const Collective collective : kCollectives) {
    std::vector<int> roots = {0};
    if (HasRoot(collective) && size > 1) roots.push_back(size - 1);
    if (HasRoot(collective) && size > 2) roots.push_back(size / 2);
    for (const Algorithm algorithm : AlgorithmsOf(collective)) {
      for (const int root : roots) {
        for (const int ranks_per_host : RanksPerHost(algorithm, size)) {
          for (const bool wide : {false, true}) {
            const ScheduleKey key = {collective, algorithm, size, 0, root, wide, ranks_per_host};
            if (BuildSchedule(key).ok()) keys.push_back(key);  // else too many ranks, no even hosts, or never wide
          }
        }
      }
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
