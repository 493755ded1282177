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
  int root = 0;       // send, recv: the peer; of collectives that have no root: 0
  bool wide = false;  // only if MayBeWide
  // kHierarchical: host h has the ranks from h times this on. Of all others: 1.
  int ranks_per_host = 1;
  friend bool operator==(const ScheduleKey&, const ScheduleKey&) = default;
};

// More ranks than this have no schedules: planes are numbered in 16 bits.
inline constexpr int kSizeMax = 1 << 15;
// Algorithms that take a connection from every rank to every other, or move all inputs to one rank, are refused above
// this many ranks. Every collective has another.
inline constexpr int kDirectSizeMax = 1024;

// Whether partial results travel between ranks, which lose no bits if they are wide.
constexpr bool MayBeWide(Collective collective, Algorithm algorithm) {
  return Reduces(collective) && (algorithm == Algorithm::kDoubling || algorithm == Algorithm::kQuadrupling ||
                                 algorithm == Algorithm::kHalving || algorithm == Algorithm::kRing ||
                                 algorithm == Algorithm::kTree || algorithm == Algorithm::kHierarchical);
}

// The schedule, or kInvalidArgument for a collective that has no such algorithm (at this size), or a size, rank or root
// out of range.
absl::StatusOr<Schedule> BuildSchedule(const ScheduleKey& key);

// Whether BuildSchedule has the collective by this algorithm for so many ranks. All but kHierarchical take no notice of
// hosts; it takes more than one of them, with more than one rank each.
bool IsOffered(Collective collective, Algorithm algorithm, int size, int ranks_per_host);

// The algorithms that carry out a collective; at some sizes perhaps not all.
absl::Span<const Algorithm> AlgorithmsOf(Collective collective);

}  // namespace tutti

#endif  // TUTTI_SRC_SCHEDULE_BUILDERS_H_
