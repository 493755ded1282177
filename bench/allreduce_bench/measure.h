// Timing (bench/timing) and checking one message size.

#ifndef TUTTI_BENCH_ALLREDUCE_BENCH_MEASURE_H_
#define TUTTI_BENCH_ALLREDUCE_BENCH_MEASURE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/allreduce_bench/options.h"
#include "bench/timing/timing.h"
#include "tutti/process_group.h"

namespace tutti {

struct Sample {
  Times times;
  uint64_t wrong_elements = 0;  // of this and all other ranks
  uint64_t first_wrong = 0;     // index; meaningful if there are wrong ones
};

struct Measurement {
  uint64_t bytes = 0;
  uint64_t count = 0;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  Sample out_of_place, in_place;
};

// A collective.
absl::StatusOr<Measurement> Measure(ProcessGroup& group, const BenchOptions& options, uint64_t bytes, DataType type,
                                    ReduceOp op);

// GB/s, 1 GB = 1e9 bytes: bytes / time, and times 2 (n - 1) / n (doc/PERFORMANCE.md of nccl-tests): what each rank's
// link must carry at least. 0 for one rank, or no time.
double AlgorithmBandwidth(uint64_t bytes, double microseconds);
double BusBandwidth(uint64_t bytes, double microseconds, int size);

}  // namespace tutti

#endif  // TUTTI_BENCH_ALLREDUCE_BENCH_MEASURE_H_
