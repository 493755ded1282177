// Work in place of a backward pass: arithmetic on an array that stays in L1, so that it keeps a core busy and leaves
// the memory to the gradients.

#ifndef TUTTI_BENCH_DDP_BENCH_COMPUTE_H_
#define TUTTI_BENCH_DDP_BENCH_COMPUTE_H_

#include <cstdint>

namespace tutti {

void Compute(int64_t passes);

// As fast as this core is now; takes about 50 ms.
double ComputePassesPerMillisecond();

}  // namespace tutti

#endif  // TUTTI_BENCH_DDP_BENCH_COMPUTE_H_
