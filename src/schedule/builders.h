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

// More ranks than this have no schedules: planes are numbered in 16 bits.
inline constexpr int kSizeMax = 1 << 15;
// kDirect takes a connection to every rank, and kGather moves all inputs to every rank: above this many ranks they are
// refused. Every collective has another algorithm.
inline constexpr int kDirectSizeMax = 1024;

// The schedule, or kInvalidArgument for a collective that has no such algorithm (at this size), or a size, rank or root
// out of range.
absl::StatusOr<Schedule> BuildSchedule(const ScheduleKey& key);

// The algorithms that carry out a collective.
absl::Span<const Algorithm> AlgorithmsOf(Collective collective);

}  // namespace tutti

#endif  // TUTTI_SRC_SCHEDULE_BUILDERS_H_
