// Builders: the algorithms, as pure functions from (n, rank, root) to one rank's schedule.

#ifndef TUTTI_SRC_SCHEDULE_BUILDERS_H_
#define TUTTI_SRC_SCHEDULE_BUILDERS_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/schedule/schedule.h"

namespace tutti {

struct ScheduleKey {
  Collective collective = Collective::kBarrier;
  Algorithm algorithm = Algorithm::kTree;
  int size = 1;
  int rank = 0;
  int root = 0;       // broadcast: the root; send, recv: the peer; else 0
  bool wide = false;  // only for kDoubling and kHalving
  friend bool operator==(const ScheduleKey&, const ScheduleKey&) = default;
};

// The schedule, or kInvalidArgument for a collective that has no such algorithm, or a rank or root out of range.
absl::StatusOr<Schedule> BuildSchedule(const ScheduleKey& key);

// The algorithms that carry out a collective.
absl::Span<const Algorithm> AlgorithmsOf(Collective collective);

}  // namespace tutti

#endif  // TUTTI_SRC_SCHEDULE_BUILDERS_H_
