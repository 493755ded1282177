// Rotations: the ranks of a group moved on in a circle. Many schedules look the same from every rank.

#ifndef TUTTI_SRC_SCHEDULE_ROTATION_H_
#define TUTTI_SRC_SCHEDULE_ROTATION_H_

#include "absl/functional/function_ref.h"
#include "src/schedule/schedule.h"

namespace tutti {

// Whether the schedule of every rank r is that of rank 0 with each rank q replaced by q + r (mod n): the same steps in
// the same order, with the same dependencies. A slice that belongs to a rank follows it: slice s is slice s + r (mod n)
// there, but in all-to-all, where slices are numbered by distance.
//
// And whether what the collective defines looks the same from every rank too, so that all of them achieve it if rank 0
// does. It does not if there is a root, or for the canonical tree, which begins with rank 0 wherever it is evaluated.
bool LookAlike(int size, absl::FunctionRef<const Schedule&(int rank)> schedule);

}  // namespace tutti

#endif  // TUTTI_SRC_SCHEDULE_ROTATION_H_
