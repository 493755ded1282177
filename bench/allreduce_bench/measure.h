// Timing (bench/timing) and checking one message size.

#ifndef TUTTI_BENCH_ALLREDUCE_BENCH_MEASURE_H_
#define TUTTI_BENCH_ALLREDUCE_BENCH_MEASURE_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "bench/allreduce_bench/collective.h"
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
  Sample out_of_place;
  std::optional<Sample> in_place;  // none if the collective never runs in place
};

// A collective. `bytes` is rounded down to whole elements, and to one part per rank where ranks have parts.
absl::StatusOr<Measurement> Measure(ProcessGroup& group, const BenchOptions& options, uint64_t bytes, DataType type,
                                    ReduceOp op);

// GB/s, 1 GB = 1e9 bytes: bytes / time, and times BusFactor. 0 if there is no time.
double AlgorithmBandwidth(uint64_t bytes, double microseconds);
double BusBandwidth(BenchCollective collective, uint64_t bytes, double microseconds, int size);

}  // namespace tutti

#endif  // TUTTI_BENCH_ALLREDUCE_BENCH_MEASURE_H_
