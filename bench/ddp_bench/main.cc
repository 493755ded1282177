// ddp_bench: what the synchronisation of gradients adds to a training step, and how much of it hides behind backward.
//
//   tutti-run -n 2 ddp_bench --model big
//
// Workloads: the gradients of a transformer and of many small layers, written one by one while a core is busy as in
// backward. The rival is PyTorch's DistributedDataParallel over Gloo, by bench/peers/torch_ddp.py, with the same fields
// in its JSON. Ends with status 1 if any element was wrong, 2 for a bad command line, 3 if the job failed.

#include <cstdio>
#include <memory>
#include <string>

#include "bench/ddp_bench/measure.h"
#include "bench/ddp_bench/options.h"
#include "bench/ddp_bench/report.h"
#include "src/base/status_macros.h"
#include "tutti/tutti.h"

namespace tutti {
namespace {

absl::StatusOr<bool> Run(const DdpOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<ProcessGroup> group, ProcessGroup::Create());
  const Model model = MakeModel(options.model);
  TUTTI_ASSIGN_OR_RETURN(const Measurement measurement, MeasureTraining(*group, model, options));
  if (group->rank() == 0) {
    const DdpResult result = Summarize(options.model, model, group->size(), measurement);
    std::fputs(Table(result).c_str(), stdout);
    if (!options.json_path.empty()) TUTTI_RETURN_IF_ERROR(WriteJson(options.json_path, result));
  }
  return measurement.wrong_elements == 0;
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  const absl::StatusOr<std::optional<tutti::DdpOptions>> options = tutti::ParseDdpOptions(argc, argv);
  if (!options.ok()) {
    std::fprintf(stderr, "ddp_bench: %s\n", std::string(options.status().message()).c_str());
    return 2;
  }
  if (!options->has_value()) return 0;
  const absl::StatusOr<bool> right = tutti::Run(**options);
  if (!right.ok()) {
    std::fprintf(stderr, "ddp_bench: %s\n", right.status().ToString().c_str());
    return 3;
  }
  return *right ? 0 : 1;
}
