#include "bench/ddp_bench/report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/program/program.h"
#include "nlohmann/json.hpp"
#include "tutti/version.h"

namespace tutti {
namespace {

Spread SpreadOf(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const size_t middle = times.size() / 2;
  const double median = times.size() % 2 == 1 ? times[middle] : (times[middle - 1] + times[middle]) / 2;
  return {.median = median, .lowest = times.front(), .highest = times.back()};
}

std::string Row(const char* what, const Spread& spread) {
  return absl::StrFormat("  %-28s %10.3f  [%.3f..%.3f]\n", what, spread.median, spread.lowest, spread.highest);
}

nlohmann::json Json(const Spread& spread) {
  return {{"median", spread.median}, {"min", spread.lowest}, {"max", spread.highest}};
}

}  // namespace

DdpResult Summarize(const std::string& name, const Model& model, int ranks, const Measurement& measurement) {
  std::vector<double> exposed;
  for (size_t i = 0; i < measurement.step.size(); ++i) {
    exposed.push_back(measurement.step[i] - measurement.compute[i]);
  }
  DdpResult result = {.model = name,
                      .elements = ElementCount(model),
                      .tensors = model.parameters.size(),
                      .ranks = ranks,
                      .steps = static_cast<int>(measurement.step.size()),
                      .compute = SpreadOf(measurement.compute),
                      .step = SpreadOf(measurement.step),
                      .communication = SpreadOf(measurement.communication),
                      .exposed = SpreadOf(std::move(exposed)),
                      .divisor = measurement.divisor,
                      .bytes = measurement.bytes,
                      .collectives = measurement.collectives,
                      .wrong_elements = measurement.wrong_elements};
  const double shown = (result.step.median - result.compute.median) / result.communication.median;
  result.overlap_percent = std::clamp(100 * (1 - shown), 0.0, 100.0);
  return result;
}

std::string Table(const DdpResult& result) {
  return absl::StrCat(absl::StrFormat("# model %s: %d float32 in %d tensors; %d ranks, %d steps\n", result.model,
                                      result.elements, result.tensors, result.ranks, result.steps),
                      "# time of the slowest rank in ms, median [lowest..highest] of the steps\n",
                      Row("compute", result.compute), Row("step", result.step),
                      Row("communication alone", result.communication), Row("exposed communication", result.exposed),
                      absl::StrFormat("  %-28s %10.1f  %%\n", "overlap", result.overlap_percent),
                      absl::StrFormat("# %d bytes in %d all-reduces, divided by %g\n", result.bytes, result.collectives,
                                      result.divisor),
                      absl::StrFormat("# wrong elements: %d\n", result.wrong_elements));
}

absl::Status WriteJson(const std::string& path, const DdpResult& result) {
  return WriteJsonFile(path, {{"library", absl::StrCat("tutti ", TUTTI_VERSION)},
                              {"model", result.model},
                              {"elements", result.elements},
                              {"tensors", result.tensors},
                              {"ranks", result.ranks},
                              {"steps", result.steps},
                              {"compute_ms", Json(result.compute)},
                              {"step_ms", Json(result.step)},
                              {"communication_ms", Json(result.communication)},
                              {"exposed_ms", Json(result.exposed)},
                              {"overlap_percent", result.overlap_percent},
                              {"divisor", result.divisor},
                              {"bytes", result.bytes},
                              {"collectives", result.collectives},
                              {"wrong_elements", result.wrong_elements}});
}

}  // namespace tutti
