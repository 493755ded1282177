#include "bench/simulate/options.h"

#include <cmath>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "bench/program/program.h"
#include "bench/simulate/model.h"
#include "src/base/status_macros.h"
#include "src/schedule/builders.h"

namespace tutti {
namespace {

constexpr Collective kCollectives[] = {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather,
                                       Collective::kBroadcast, Collective::kReduce,        Collective::kGather,
                                       Collective::kScatter,   Collective::kAllToAll,      Collective::kBarrier};

struct CostFlag {
  const char* name;
  double CostModel::*cost;
  const char* what;
};
constexpr CostFlag kCostFlags[] = {
    {"--wire-latency-us", &CostModel::wire_latency_us, "from the first byte's leaving to its arriving"},
    {"--send-overhead-us", &CostModel::send_overhead_us, "of the sender's thread, for a message"},
    {"--recv-overhead-us", &CostModel::recv_overhead_us, "of the receiver's thread, for a message"},
    {"--send-us-per-byte", &CostModel::send_us_per_byte, "of the sender's port"},
    {"--recv-us-per-byte", &CostModel::recv_us_per_byte, "of the receiver's port"},
    {"--copy-us-per-byte", &CostModel::copy_us_per_byte, "of a thread that copies, as between memory and socket"},
    {"--reduce-us-per-byte", &CostModel::reduce_us_per_byte, "of a thread that reduces, for each byte it reads"},
    {"--turn-us", &CostModel::turn_us, "of a core that turns to another rank"},
    {"--turn-us-per-byte", &CostModel::turn_us_per_byte, "likewise, for each byte that it moves or reduces there"},
};

absl::StatusOr<std::vector<Collective>> ParseCollectives(const std::vector<std::string>& names) {
  std::vector<Collective> collectives;
  std::string known;
  for (const Collective collective : kCollectives) absl::StrAppend(&known, " ", Name(collective));
  for (const std::string& name : names) {
    const size_t before = collectives.size();
    for (const Collective collective : kCollectives) {
      if (Name(collective) == name) collectives.push_back(collective);
    }
    if (collectives.size() == before) {
      return absl::InvalidArgumentError(absl::StrCat("--collective \"", name, "\": expected one of", known));
    }
  }
  if (collectives.empty()) collectives.assign(std::begin(kCollectives), std::end(kCollectives));
  return collectives;
}

std::string NetworkHelp() {
  std::string help = "costs to start from";
  absl::string_view separator = ": ";
  for (const NamedModel& model : NamedModels()) {
    absl::StrAppend(&help, std::exchange(separator, "; "), model.name, ", ", model.what);
  }
  return help;
}

absl::StatusOr<CostModel> FindModel(const std::string& name) {
  std::string known;
  for (const NamedModel& model : NamedModels()) {
    if (model.name == name) return model.costs;
    absl::StrAppend(&known, " ", model.name);
  }
  return absl::InvalidArgumentError(absl::StrCat("--network \"", name, "\": expected one of", known));
}

absl::Status CheckOptions(const SimulateOptions& options) {
  for (const int ranks : options.ranks) {
    if (ranks >= 1 && ranks <= kSizeMax) continue;
    return absl::InvalidArgumentError(absl::StrCat("--ranks ", ranks, ": expected 1 to ", kSizeMax));
  }
  for (const CostFlag& flag : kCostFlags) {
    const double cost = options.costs.*flag.cost;
    if (std::isfinite(cost) && cost >= 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(flag.name, " ", cost, ": a cost must be finite and not negative"));
  }
  if (options.costs.cores < 0) return absl::InvalidArgumentError("--cores must not be negative");
  if (options.calibrate && options.compare_path.empty()) {
    return absl::InvalidArgumentError("--calibrate needs the measurements of --compare");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<SimulateOptions>> ParseSimulateOptions(int argc, char** argv) {
  SimulateOptions options;
  std::vector<std::string> collectives;
  std::string network = "25g";
  std::optional<double> costs[std::size(kCostFlags)];
  std::optional<int> cores;
  CLI::App app("Predicts what each algorithm of a collective costs on a network.", "simulate");
  app.add_option("-c,--collective", collectives, "all-reduce, ...; all if none is given")->delimiter(',');
  app.add_option("-n,--ranks", options.ranks, "2,8,64")->delimiter(',');
  app.add_option("-b,--bytes", options.sizes, "of the operand, or of one block: 8,64K,16M")
      ->delimiter(',')
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false));
  app.add_flag("--half", options.half, "elements of 16 bits, with partial sums of 32; else of 32 bits");
  app.add_option("--network", network, NetworkHelp())->capture_default_str();
  for (size_t i = 0; i < std::size(kCostFlags); ++i) app.add_option(kCostFlags[i].name, costs[i], kCostFlags[i].what);
  app.add_option("--cores", cores, "that the threads of all ranks share; 0: each has its own");
  app.add_option("--compare", options.compare_path, "a CSV file of bench/compare: predict its rows of Tutti over tcp");
  app.add_option("--buffers", options.buffers, "which rows: own, library")->capture_default_str();
  app.add_flag("--calibrate", options.calibrate,
               "scale the costs such that the smallest and largest size at n = 2 fit");
  TUTTI_ASSIGN_OR_RETURN(const bool run, ParseFlags(app, argc, argv));
  if (!run) return std::nullopt;
  TUTTI_ASSIGN_OR_RETURN(options.collectives, ParseCollectives(collectives));
  TUTTI_ASSIGN_OR_RETURN(options.costs, FindModel(network));
  for (size_t i = 0; i < std::size(kCostFlags); ++i) {
    if (costs[i].has_value()) options.costs.*kCostFlags[i].cost = *costs[i];
  }
  if (cores.has_value()) options.costs.cores = *cores;
  TUTTI_RETURN_IF_ERROR(CheckOptions(options));
  return options;
}

}  // namespace tutti
