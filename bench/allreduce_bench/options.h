// The command line of allreduce_bench: the flags of nccl-tests, as far as they mean something on CPUs.

#ifndef TUTTI_BENCH_ALLREDUCE_BENCH_OPTIONS_H_
#define TUTTI_BENCH_ALLREDUCE_BENCH_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/allreduce_bench/collective.h"
#include "tutti/data_type.h"

namespace tutti {

struct BenchOptions {
  BenchCollective collective = BenchCollective::kAllReduce;
  uint64_t min_bytes = 32 << 20;
  uint64_t max_bytes = 32 << 20;
  uint64_t step_bytes = 1 << 20;
  double step_factor = 0;  // more than 1: multiplies instead of adding step_bytes
  int iterations = 20;
  int warmup_iterations = 5;
  bool check = true;
  std::vector<ReduceOp> ops = {ReduceOp::kSum};  // one, without meaning, if the collective reduces nothing
  std::vector<DataType> types = {DataType::kFloat32};
  std::string json_path;  // empty: none
  bool library_buffers = false;
  // For tests of the check and of the timing.
  bool corrupt_one_element = false;
  int delay_rank = -1;
  double delay_milliseconds = 5;
};

// Empty if the program has printed help and is to end with status 0. The error names the flag, its text and the rule.
absl::StatusOr<std::optional<BenchOptions>> ParseBenchOptions(int argc, char** argv);

// "4", "64K", "1.5M", "1GiB": binary multiples.
absl::StatusOr<uint64_t> ParseBytes(absl::string_view text);

// min_bytes to max_bytes, in steps; both ends included if the steps meet them.
std::vector<uint64_t> MessageSizes(const BenchOptions& options);

}  // namespace tutti

#endif  // TUTTI_BENCH_ALLREDUCE_BENCH_OPTIONS_H_
