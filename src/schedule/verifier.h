// Verifier: proves that the schedules of all ranks together carry out their collective.

#ifndef TUTTI_SRC_SCHEDULE_VERIFIER_H_
#define TUTTI_SRC_SCHEDULE_VERIFIER_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "src/schedule/schedule.h"

namespace tutti {

struct ScheduleCounts {  // of the busiest rank
  uint64_t messages_sent = 0;
  uint64_t slices_sent = 0;
  uint32_t peers = 0;
  uint32_t depth = 0;  // longest chain of messages
};

// Runs the schedules of ranks 0..n-1 symbolically, with in-place operands (the hardest case). OK if
//  - every rank's output holds, in every slice, exactly the value the collective defines: for reductions the canonical
//    tree over all ranks, marked final exactly once;
//  - the k-th message from p to q has a receiver of the same slices, and none is left over;
//  - on each rank, two steps that touch the same slice of the same memory, one of them writing, are ordered by
//    dependencies;
//  - all steps complete even if every message waits until its receiver is ready for it (no buffering).
// The error names rank, step and slice.
//
// `schedule` yields the schedule of one rank; it is called once or more per rank, and what it returns need only live
// until the next call. Memory: some 45 bytes a step of all ranks, or of one if they all look alike (rotation.h).
absl::Status VerifySchedules(int size, absl::FunctionRef<const Schedule&(int rank)> schedule,
                             ScheduleCounts* counts = nullptr);

}  // namespace tutti

#endif  // TUTTI_SRC_SCHEDULE_VERIFIER_H_
