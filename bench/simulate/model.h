// The networks that simulate knows by name, and how to learn the costs of loopback from two measurements.

#ifndef TUTTI_BENCH_SIMULATE_MODEL_H_
#define TUTTI_BENCH_SIMULATE_MODEL_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/simulate/measurements.h"
#include "src/schedule/simulator.h"

namespace tutti {

struct NamedModel {
  const char* name;
  const char* what;
  CostModel costs;
};

// "10g", "25g", "100g", "loopback". The source says where the constants come from.
const std::vector<NamedModel>& NamedModels();

// `costs` with all overheads scaled alike, and all costs per byte alike, such that the two measurements are predicted
// exactly. kInvalidArgument if no scales do that.
absl::StatusOr<CostModel> Calibrate(const CostModel& costs, const MeasuredAllReduce& small,
                                    const MeasuredAllReduce& large);

}  // namespace tutti

#endif  // TUTTI_BENCH_SIMULATE_MODEL_H_
