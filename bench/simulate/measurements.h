// Measured times, from the CSV file of bench/compare.

#ifndef TUTTI_BENCH_SIMULATE_MEASUREMENTS_H_
#define TUTTI_BENCH_SIMULATE_MEASUREMENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/simulate/plan.h"

namespace tutti {

struct MeasuredAllReduce {
  std::string buffers;
  int ranks = 0;
  uint64_t bytes = 0;
  double median_us = 0;
};

// The rows of Tutti's all-reduce over tcp in memory of that kind ("own", "library"), in order of ranks, then bytes.
// kInvalidArgument names the line that cannot be read, or the columns that are missing; kNotFound if there are none.
absl::StatusOr<std::vector<MeasuredAllReduce>> ParseMeasurements(absl::string_view csv, absl::string_view buffers);

// As the engine would run it.
Plan PlanOf(const MeasuredAllReduce& measured);

}  // namespace tutti

#endif  // TUTTI_BENCH_SIMULATE_MEASUREMENTS_H_
