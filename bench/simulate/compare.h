// Predicted against measured times.

#ifndef TUTTI_BENCH_SIMULATE_COMPARE_H_
#define TUTTI_BENCH_SIMULATE_COMPARE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/simulate/measurements.h"
#include "src/schedule/simulator.h"

namespace tutti {

// A table of those with 2 to 8 ranks. Of 1 MiB and more, rows that are off by more than 25 % are marked, and counted at
// the end.
absl::StatusOr<std::string> CompareTable(const std::vector<MeasuredAllReduce>& rows, const CostModel& costs);

// Calibrate with the smallest and the largest size measured with two ranks. kNotFound if there are no two such rows.
absl::StatusOr<CostModel> CalibrateWith(const std::vector<MeasuredAllReduce>& rows, const CostModel& costs);

}  // namespace tutti

#endif  // TUTTI_BENCH_SIMULATE_COMPARE_H_
