// Work in place of a backward pass: arithmetic on an array that stays in L1, so that it keeps a core busy and leaves
// the memory to the gradients.

#ifndef TUTTI_BENCH_DDP_BENCH_COMPUTE_H_
#define TUTTI_BENCH_DDP_BENCH_COMPUTE_H_

#include <cstdint>

namespace tutti {

void Compute(int64_t passes);

// When nothing else disturbs it: the best of several attempts, which take about 50 ms together.
double ComputePassesPerMillisecond();

}  // namespace tutti

#endif  // TUTTI_BENCH_DDP_BENCH_COMPUTE_H_
