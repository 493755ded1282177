// allreduce_bench: how fast an all-reduce, or another collective, is among the ranks of a job, and whether its result
// is right.
//
//   tutti-run -n 2 allreduce_bench -b 4 -e 64M -f 4
//
// Workloads: the collective with each size, type and operator asked for, out of place and in place. Ends with status 1
// if any element was wrong, 2 for a bad command line, 3 if the job failed.

#include <cstdio>
#include <memory>
#include <vector>

#include "bench/allreduce_bench/measure.h"
#include "bench/allreduce_bench/options.h"
#include "bench/allreduce_bench/report.h"
#include "src/base/status_macros.h"
#include "tutti/tutti.h"

namespace tutti {
namespace {

absl::StatusOr<std::vector<Measurement>> MeasureAll(ProcessGroup& group, const BenchOptions& options) {
  std::vector<Measurement> measurements;
  for (const uint64_t bytes : MessageSizes(options)) {
    for (const DataType type : options.types) {
      for (const ReduceOp op : options.ops) {
        TUTTI_ASSIGN_OR_RETURN(Measurement measurement, Measure(group, options, bytes, type, op));
        if (group.rank() == 0) {
          std::fputs(TableRow(options.collective, measurement, group.size()).c_str(), stdout);
          std::fflush(stdout);
        }
        measurements.push_back(measurement);
      }
    }
  }
  return measurements;
}

absl::StatusOr<bool> Run(const BenchOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<ProcessGroup> group, ProcessGroup::Create());
  const bool prints = group->rank() == 0;
  if (prints) std::fputs(TableHeader(options, group->size()).c_str(), stdout);
  TUTTI_ASSIGN_OR_RETURN(std::vector<Measurement> measurements, MeasureAll(*group, options));
  if (prints) {
    std::fputs(TableFooter(options.collective, measurements, group->size()).c_str(), stdout);
    if (!options.json_path.empty())
      TUTTI_RETURN_IF_ERROR(WriteJson(options.json_path, options.collective, measurements, group->size()));
  }
  uint64_t wrong = 0;
  for (const Measurement& measurement : measurements) {
    wrong += measurement.out_of_place.wrong_elements;
    if (measurement.in_place.has_value()) wrong += measurement.in_place->wrong_elements;
  }
  return wrong == 0;
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  const absl::StatusOr<std::optional<tutti::BenchOptions>> options = tutti::ParseBenchOptions(argc, argv);
  if (!options.ok()) {
    std::fprintf(stderr, "allreduce_bench: %s\n", std::string(options.status().message()).c_str());
    return 2;
  }
  if (!options->has_value()) return 0;
  const absl::StatusOr<bool> right = tutti::Run(**options);
  if (!right.ok()) {
    std::fprintf(stderr, "allreduce_bench: %s\n", right.status().ToString().c_str());
    return 3;
  }
  return *right ? 0 : 1;
}
