// The timing loop of all communication benchmarks, ours and those of other libraries, so that they measure the same.
//
// Every iteration is timed on its own, and its time is that of the slowest rank. Between iterations, outside the
// timing, the input is filled anew and the output read, so that no iteration finds its data where the last one left it.
// The ranks meet once, after the warm-up.

#ifndef TUTTI_BENCH_TIMING_TIMING_H_
#define TUTTI_BENCH_TIMING_TIMING_H_

#include <cstddef>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace tutti {

struct TimedOperation {
  std::function<void()> fill;
  std::function<absl::Status()> run;  // the only one that is timed
  std::function<void()> read;
  std::function<absl::Status()> barrier;
  std::function<absl::Status(absl::Span<double>)> max_over_ranks;  // element by element, in place
};

// Over the iterations, in microseconds; all zero if there were none.
struct Times {
  double average = 0, minimum = 0, median = 0, p99 = 0, maximum = 0;
};

// Every rank calls it with the same numbers. Ends at the first error.
absl::StatusOr<Times> TimeOperation(const TimedOperation& operation, int warmup_iterations, int iterations);

// Loads from every cache line.
void ReadMemory(const void* data, size_t bytes);

}  // namespace tutti

#endif  // TUTTI_BENCH_TIMING_TIMING_H_
