// Bruck's exchange: every rank ends with the blocks of all ranks, for any n, in ceil(log2 n) messages one after
// another.
//
// Seen from rank r, the block at offset o is that of rank r + o (mod n). Before the phase of distance d = 1, 2, 4, ...
// a rank holds the offsets 0 .. d-1. It sends the first of them to rank r - d, for which they are the offsets d ..
// 2d-1, and receives offsets d .. 2d-1 from rank r + d. The last phase moves what is missing, n - d blocks. For n = 5,
// by the owners of the blocks held:
//
//   rank   start   d = 1   d = 2         d = 4
//    0     0       0 1     0 1 2 3       0 1 2 3 4
//    1     1       1 2     1 2 3 4       1 2 3 4 0
//    2     2       2 3     2 3 4 0       2 3 4 0 1
//    3     3       3 4     3 4 0 1       3 4 0 1 2
//    4     4       4 0     4 0 1 2       4 0 1 2 3
//
// Each block is a message of its own and leaves as soon as it is here, so a late rank holds up its own block only.

#ifndef TUTTI_SRC_SCHEDULE_BRUCK_EXCHANGE_H_
#define TUTTI_SRC_SCHEDULE_BRUCK_EXCHANGE_H_

#include "absl/functional/function_ref.h"
#include "src/schedule/schedule_builder.h"

namespace tutti {

// `place` says where the block of a rank lies on this rank; this rank's own is there already.
void AddBruckExchange(ScheduleBuilder& builder, int size, int rank, absl::FunctionRef<Operand(int owner)> place);

}  // namespace tutti

#endif  // TUTTI_SRC_SCHEDULE_BRUCK_EXCHANGE_H_
