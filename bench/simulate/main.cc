// simulate: what each algorithm of a collective would cost, for networks and numbers of ranks that nobody has at hand.
//
//   simulate -c all-reduce -n 8,64,4096 -b 8,64K,16M --network 25g
//   simulate --network loopback --compare build/compare.csv --calibrate
//
// The second compares predictions with what bench/compare has measured. Ends with status 1 if it failed, 2 for a bad
// command line.

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/simulate/compare.h"
#include "bench/simulate/options.h"
#include "bench/simulate/plan.h"
#include "src/base/status_macros.h"

namespace tutti {
namespace {

std::string Describe(const CostModel& costs) {
  return absl::StrFormat(
      "# wire %g us; thread %g us a send, %g us a receive, %g us/KiB copied, %g us/KiB reduced; port %g us/KiB out, %g "
      "in; "
      "%s\n",
      costs.wire_latency_us, costs.send_overhead_us, costs.recv_overhead_us, 1024 * costs.copy_us_per_byte,
      1024 * costs.reduce_us_per_byte, 1024 * costs.send_us_per_byte, 1024 * costs.recv_us_per_byte,
      costs.cores == 0 ? "a core per rank"
                       : absl::StrFormat("%d cores for all ranks, %g us and %g us/KiB a turn", costs.cores,
                                         costs.turn_us, 1024 * costs.turn_us_per_byte));
}

// One line: messages, bytes and sockets of the rank with most of them.
absl::Status PrintPrediction(const Plan& plan, const CostModel& costs) {
  const absl::StatusOr<Prediction> prediction = Predict(plan, costs);
  if (absl::IsInvalidArgument(prediction.status())) return absl::OkStatus();  // not for so many ranks
  std::fputs(
      absl::StrFormat("%-14s %6d %12d %-12s ", Name(plan.collective), plan.size, plan.bytes, Name(plan.algorithm))
          .c_str(),
      stdout);
  if (absl::IsResourceExhausted(prediction.status())) {
    std::printf("%14s  (%s)\n", "-", std::string(prediction.status().message()).c_str());
    return absl::OkStatus();
  }
  TUTTI_RETURN_IF_ERROR(prediction.status());
  std::fputs(absl::StrFormat("%14.1f %10d %14d %8d\n", prediction->time_us, prediction->messages_sent,
                             prediction->bytes_sent, prediction->peers)
                 .c_str(),
             stdout);
  return absl::OkStatus();
}

absl::Status PrintPredictions(const SimulateOptions& options) {
  std::printf("%-14s %6s %12s %-12s %14s %10s %14s %8s\n", "collective", "ranks", "bytes", "algorithm", "us",
              "messages", "bytes sent", "sockets");
  for (const Collective collective : options.collectives) {
    const std::vector<uint64_t> sizes = collective == Collective::kBarrier ? std::vector<uint64_t>{0} : options.sizes;
    for (const int size : options.ranks) {
      for (const uint64_t bytes : sizes) {
        for (const Algorithm algorithm : AlgorithmsOf(collective)) {
          TUTTI_RETURN_IF_ERROR(PrintPrediction({collective, algorithm, size, bytes, options.half}, options.costs));
        }
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Compare(const SimulateOptions& options) {
  std::ifstream file(options.compare_path);
  std::ostringstream csv;
  csv << file.rdbuf();
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", options.compare_path));
  absl::StatusOr<std::vector<MeasuredAllReduce>> rows = ParseMeasurements(csv.str(), options.buffers);
  if (!rows.ok()) {
    return absl::Status(rows.status().code(), absl::StrCat(options.compare_path, ": ", rows.status().message()));
  }
  CostModel costs = options.costs;
  if (options.calibrate) {
    TUTTI_ASSIGN_OR_RETURN(costs, CalibrateWith(*rows, costs));
  }
  TUTTI_ASSIGN_OR_RETURN(const std::string table, CompareTable(*rows, costs));
  std::fputs(Describe(costs).c_str(), stdout);
  std::fputs(table.c_str(), stdout);
  return absl::OkStatus();
}

absl::Status Run(const SimulateOptions& options) {
  if (!options.compare_path.empty()) return Compare(options);
  std::fputs(Describe(options.costs).c_str(), stdout);
  return PrintPredictions(options);
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  const absl::StatusOr<std::optional<tutti::SimulateOptions>> options = tutti::ParseSimulateOptions(argc, argv);
  if (!options.ok()) {
    std::fprintf(stderr, "simulate: %s\n", std::string(options.status().message()).c_str());
    return 2;
  }
  if (!options->has_value()) return 0;
  const absl::Status status = tutti::Run(**options);
  if (!status.ok()) {
    std::fprintf(stderr, "simulate: %s\n", std::string(status.message()).c_str());
    return 1;
  }
  return 0;
}
