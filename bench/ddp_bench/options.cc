#include "bench/ddp_bench/options.h"

#include "CLI/CLI.hpp"
#include "bench/program/program.h"
#include "src/base/status_macros.h"

namespace tutti {

absl::StatusOr<std::optional<DdpOptions>> ParseDdpOptions(int argc, char** argv) {
  DdpOptions options;
  CLI::App app(
      "Times steps of data-parallel training, among the ranks that tutti-run, mpirun, torchrun or srun starts.");
  app.add_option("--model", options.model,
                 "big (26.7 million float32 in 100 tensors) or small (1 million in 200) (big)")
      ->check(CLI::IsMember({"big", "small"}));
  app.add_option("--steps", options.steps, "timed steps (20)")->check(CLI::Range(1, 1000000));
  app.add_option("--warmup", options.warmup_steps, "steps before them (3)")->check(CLI::Range(0, 1000000));
  app.add_option("--compute_ms", options.compute_milliseconds, "of a step without communication (big 150, small 11)")
      ->check(CLI::Range(0.0, 1e6));
  app.add_option("--bucket_cap", options.bucket_bytes, "bytes of a bucket (25M); K, M and G are binary multiples")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--first_bucket", options.first_bucket_bytes, "bytes of the first bucket (1M)")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--json", options.json_path, "also write the results as JSON to this file");
  app.add_flag("--corrupt_one_element", options.corrupt_one_element, "test of the check")->group("");
  TUTTI_ASSIGN_OR_RETURN(const bool run, ParseFlags(app, argc, argv));
  if (!run) return std::nullopt;
  return options;
}

}  // namespace tutti
