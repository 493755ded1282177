// The command line of ddp_bench.

#ifndef TUTTI_BENCH_DDP_BENCH_OPTIONS_H_
#define TUTTI_BENCH_DDP_BENCH_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace tutti {

struct DdpOptions {
  std::string model = "big";
  int steps = 20;
  int warmup_steps = 3;
  std::optional<double> compute_milliseconds;  // none: the model's
  uint64_t bucket_bytes = 25 << 20;
  uint64_t first_bucket_bytes = 1 << 20;
  std::string json_path;             // empty: none
  bool corrupt_one_element = false;  // test of the check
};

// Empty if the program has printed help and is to end with status 0. The error names the flag, its text and the rule.
absl::StatusOr<std::optional<DdpOptions>> ParseDdpOptions(int argc, char** argv);

}  // namespace tutti

#endif  // TUTTI_BENCH_DDP_BENCH_OPTIONS_H_
