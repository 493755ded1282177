#include "bench/allreduce_bench/report.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/program/program.h"
#include "nlohmann/json.hpp"
#include "tutti/version.h"

namespace tutti {
namespace {

const char* TypeName(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return "half";
    case DataType::kFloat32:
      return "float";
    case DataType::kFloat64:
      return "double";
    default:
      return Name(type).data();
  }
}

const char* OpName(BenchCollective collective, ReduceOp op) {
  if (!Traits(collective).reduces) return "none";
  switch (op) {
    case ReduceOp::kProduct:
      return "prod";
    case ReduceOp::kAverage:
      return "avg";
    default:
      return Name(op).data();
  }
}

std::string SampleColumns(BenchCollective collective, const std::optional<Sample>& sample, uint64_t bytes, int size) {
  if (!sample.has_value()) return absl::StrFormat("  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A");
  const double time = sample->times.average;
  return absl::StrFormat("  %7.2f  %6.2f  %6.2f  %6d", time, AlgorithmBandwidth(bytes, time),
                         BusBandwidth(collective, bytes, time, size), sample->wrong_elements);
}

std::string PercentileColumns(const Sample& sample) {
  return absl::StrFormat("  %9.2f  %9.2f  %9.2f  %9.2f", sample.times.minimum, sample.times.median, sample.times.p99,
                         sample.times.maximum);
}

nlohmann::json Json(BenchCollective collective, const Sample& sample, uint64_t bytes, int size) {
  nlohmann::json json = {{"average_us", sample.times.average},
                         {"min_us", sample.times.minimum},
                         {"median_us", sample.times.median},
                         {"p99_us", sample.times.p99},
                         {"max_us", sample.times.maximum},
                         {"algbw_gbps", AlgorithmBandwidth(bytes, sample.times.average)},
                         {"busbw_gbps", BusBandwidth(collective, bytes, sample.times.average, size)},
                         {"wrong_elements", sample.wrong_elements}};
  if (sample.wrong_elements > 0) json["first_wrong_element"] = sample.first_wrong;
  return json;
}

}  // namespace

std::string TableHeader(const BenchOptions& options, int size) {
  std::string header =
      absl::StrFormat("# tutti allreduce_bench version %s, %d rank%s\n", TUTTI_VERSION, size, size == 1 ? "" : "s");
  absl::StrAppend(&header, "# Collective test starting: ", Name(options.collective), "_perf\n");
  absl::StrAppendFormat(&header, "# minBytes %d maxBytes %d step: %s warmup iters: %d iters: %d validation: %d\n",
                        options.min_bytes, options.max_bytes,
                        options.step_factor > 1 ? absl::StrFormat("%g(factor)", options.step_factor)
                                                : absl::StrFormat("%d(bytes)", options.step_bytes),
                        options.warmup_iterations, options.iterations, options.check ? 1 : 0);
  absl::StrAppendFormat(&header,
                        "# Times are of the slowest rank. GB = 1e9 bytes; busbw = algbw * %g. Sizes: K = 2^10.\n#\n",
                        BusFactor(options.collective, size));
  absl::StrAppendFormat(&header, "# %76s  %51s  %42s\n", "out-of-place", "in-place",
                        "over iterations, in-place if it can be");
  absl::StrAppendFormat(&header,
                        "# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s  %9s  %9s  %9s  %9s\n",
                        "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw",
                        "busbw", "#wrong", "min", "p50", "p99", "max");
  absl::StrAppendFormat(&header,
                        "# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s  %9s  %9s  %9s  %9s\n",
                        "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "",
                        "(us)", "(us)", "(us)", "(us)");
  return header;
}

std::string TableRow(BenchCollective collective, const Measurement& measurement, int size) {
  return absl::StrCat(
      absl::StrFormat("%12d  %12d  %8s  %6s  %6d", measurement.bytes, measurement.count, TypeName(measurement.type),
                      OpName(collective, measurement.op), Traits(collective).rooted ? kRoot : -1),
      SampleColumns(collective, measurement.out_of_place, measurement.bytes, size),
      SampleColumns(collective, measurement.in_place, measurement.bytes, size),
      PercentileColumns(measurement.in_place.value_or(measurement.out_of_place)), "\n");
}

std::string TableFooter(BenchCollective collective, const std::vector<Measurement>& measurements, int size) {
  double bandwidth = 0;
  uint64_t wrong = 0;
  std::string first;
  int samples = 0;
  for (const Measurement& measurement : measurements) {
    for (const std::optional<Sample>& sample : {std::optional(measurement.out_of_place), measurement.in_place}) {
      if (!sample.has_value()) continue;
      ++samples;
      bandwidth += BusBandwidth(collective, measurement.bytes, sample->times.average, size);
      wrong += sample->wrong_elements;
      if (sample->wrong_elements > 0 && first.empty()) {
        first = absl::StrFormat("# First wrong element: index %d of %d %s\n", sample->first_wrong, measurement.count,
                                TypeName(measurement.type));
      }
    }
  }
  if (samples > 0) bandwidth /= samples;
  return absl::StrFormat(
      "# Out of bounds values : %d %s\n%s# Avg bus bandwidth    : %g\n#\n# Collective test concluded: %s_perf\n", wrong,
      wrong == 0 ? "OK" : "FAILED", first, bandwidth, Name(collective));
}

absl::Status WriteJson(const std::string& path, BenchCollective collective,
                       const std::vector<Measurement>& measurements, int size) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Measurement& measurement : measurements) {
    nlohmann::json row = {{"bytes", measurement.bytes},
                          {"count", measurement.count},
                          {"type", TypeName(measurement.type)},
                          {"op", OpName(collective, measurement.op)},
                          {"out_of_place", Json(collective, measurement.out_of_place, measurement.bytes, size)}};
    if (measurement.in_place.has_value()) {
      row["in_place"] = Json(collective, *measurement.in_place, measurement.bytes, size);
    }
    rows.push_back(std::move(row));
  }
  return WriteJsonFile(
      path,
      {{"version", TUTTI_VERSION}, {"collective", std::string(Name(collective))}, {"ranks", size}, {"results", rows}});
}

}  // namespace tutti
