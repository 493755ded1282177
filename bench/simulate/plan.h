// Plan: one operation of all ranks, ready to be simulated.

#ifndef TUTTI_BENCH_SIMULATE_PLAN_H_
#define TUTTI_BENCH_SIMULATE_PLAN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "src/schedule/builders.h"
#include "src/schedule/simulator.h"

namespace tutti {

struct Plan {
  Collective collective = Collective::kAllReduce;
  Algorithm algorithm = Algorithm::kDirect;
  int size = 2;
  uint64_t bytes = 0;  // of the operand, or of one block
  bool half = false;   // elements of 2 bytes, the partial sums of which may be 4 bytes wide; else elements of 4 bytes
};

// kResourceExhausted if there are too many steps to be simulated; else as BuildSchedule and Simulate.
absl::StatusOr<Prediction> Predict(const Plan& plan, const CostModel& costs);

// What the engine takes by default instead of plan.algorithm.
Algorithm ChosenAlgorithm(const Plan& plan);

}  // namespace tutti

#endif  // TUTTI_BENCH_SIMULATE_PLAN_H_
