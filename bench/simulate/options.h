// The command line of simulate.

#ifndef TUTTI_BENCH_SIMULATE_OPTIONS_H_
#define TUTTI_BENCH_SIMULATE_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/schedule/schedule.h"
#include "src/schedule/simulator.h"

namespace tutti {

struct SimulateOptions {
  std::vector<Collective> collectives;
  std::vector<int> ranks = {2, 8, 64};
  std::vector<uint64_t> sizes = {8, 64 << 10, 16 << 20};  // bytes
  bool half = false;
  CostModel costs;
  std::string compare_path;  // empty: no comparison
  std::string buffers = "own";
  bool calibrate = false;
};

// Empty if the program has printed help and is to end with status 0. The error names the flag, its text and the rule.
absl::StatusOr<std::optional<SimulateOptions>> ParseSimulateOptions(int argc, char** argv);

}  // namespace tutti

#endif  // TUTTI_BENCH_SIMULATE_OPTIONS_H_
