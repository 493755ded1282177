#include "bench/simulate/compare.h"

#include <cmath>

#include "absl/strings/str_format.h"
#include "bench/simulate/model.h"
#include "src/base/status_macros.h"

namespace tutti {

absl::StatusOr<std::string> CompareTable(const std::vector<MeasuredAllReduce>& rows, const CostModel& costs) {
  constexpr int kRanksMax = 8;
  constexpr uint64_t kLargeBytes = 1 << 20;
  constexpr double kFarOff = 0.25;
  std::string text = absl::StrFormat("%6s %12s %-10s %14s %14s %10s\n", "ranks", "bytes", "algorithm", "predicted us",
                                     "measured us", "deviation");
  int large = 0, off = 0;
  for (const MeasuredAllReduce& row : rows) {
    if (row.ranks > kRanksMax) continue;
    const Plan plan = PlanOf(row);
    TUTTI_ASSIGN_OR_RETURN(const Prediction prediction, Predict(plan, costs));
    const double deviation = prediction.time_us / row.median_us - 1;
    const bool is_large = row.bytes >= kLargeBytes;
    const bool is_off = is_large && std::abs(deviation) > kFarOff;
    large += is_large;
    off += is_off;
    absl::StrAppendFormat(&text, "%6d %12d %-10s %14.1f %14.1f %+9.1f%%%s\n", row.ranks, row.bytes,
                          Name(plan.algorithm), prediction.time_us, row.median_us, 100 * deviation,
                          is_off ? "  <-- more than 25 %" : "");
  }
  absl::StrAppendFormat(&text, "# %d of %d rows of 1 MiB and more are off by more than 25 %%\n", off, large);
  return text;
}

absl::StatusOr<CostModel> CalibrateWith(const std::vector<MeasuredAllReduce>& rows, const CostModel& costs) {
  const MeasuredAllReduce* small = nullptr;
  const MeasuredAllReduce* large = nullptr;
  for (const MeasuredAllReduce& row : rows) {  // in order of bytes
    if (row.ranks != 2) continue;
    if (small == nullptr) small = &row;
    large = &row;
  }
  if (small == nullptr || small->bytes == large->bytes) {
    return absl::NotFoundError("to calibrate takes rows of two sizes with 2 ranks");
  }
  return Calibrate(costs, *small, *large);
}

}  // namespace tutti
