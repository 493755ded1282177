#include "bench/simulate/plan.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status_macros.h"
#include "src/engine/core.h"
#include "src/engine/selection.h"
#include "src/reduce/reduce.h"

namespace tutti {
namespace {

// So that memory (some 30 bytes each) and time (half a microsecond each) stay within what a laptop has.
constexpr uint64_t kStepsMax = 40'000'000;          // of all ranks
constexpr uint64_t kSegmentStepsMax = 100'000'000;  // the same, in all segments

SelectionQuery QueryOf(const Plan& plan) {
  const DataType type = plan.half ? DataType::kBFloat16 : DataType::kFloat32;
  return {.collective = plan.collective, .size = plan.size, .count = plan.bytes / ByteSize(type), .type = type};
}

// The pieces in which the engine runs it: those of its default rule, or if it would take another algorithm, those of a
// rule that asks for this one.
absl::StatusOr<Selection> SelectionOf(const Plan& plan) {
  const Selection by_default = Select(QueryOf(plan), SelectionTable());
  if (by_default.algorithm == plan.algorithm) return by_default;
  SelectionRule rule;
  rule.collective = plan.collective;
  rule.algorithm = plan.algorithm;
  SelectionTable table;
  table.Prefer({rule});
  const Selection selection = Select(QueryOf(plan), table);
  if (selection.algorithm != plan.algorithm) {
    return absl::InvalidArgumentError(absl::StrCat("the engine has no ", Name(plan.collective), " by algorithm '",
                                                   Name(plan.algorithm), "' for ", plan.size, " ranks"));
  }
  return selection;
}

absl::Status CheckSteps(const Plan& plan, const SimulatedOperation& operation, const ScheduleKey& key) {
  TUTTI_ASSIGN_OR_RETURN(const Schedule first, BuildSchedule(key));
  const uint64_t steps = first.steps.size() * static_cast<uint64_t>(plan.size);
  const uint64_t segments = operation.count / operation.segment_count + 1;
  if (steps > kStepsMax || steps * segments > kSegmentStepsMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat(steps, " steps in each of ", segments, " segments: more than is worth simulating"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Prediction> Predict(const Plan& plan, const CostModel& costs) {
  TUTTI_ASSIGN_OR_RETURN(const Selection selection, SelectionOf(plan));
  ScheduleKey key = {
      .collective = plan.collective, .algorithm = plan.algorithm, .size = plan.size, .wide = selection.wide};
  const SelectionQuery query = QueryOf(plan);
  const SimulatedOperation operation = {.count = query.count,
                                        .element_bytes = ByteSize(query.type),
                                        .accumulator_bytes = ByteSize(AccumulatorType(query.type, query.op)),
                                        .segment_count = selection.segment_count,
                                        .window = Core::kWindow};
  TUTTI_RETURN_IF_ERROR(CheckSteps(plan, operation, key));
  absl::Status failed;
  Schedule current;
  absl::StatusOr<Prediction> prediction = Simulate(
      plan.size,
      [&](int rank) -> const Schedule& {
        key.rank = rank;
        absl::StatusOr<Schedule> schedule = BuildSchedule(key);
        if (schedule.ok()) current = *std::move(schedule);
        failed.Update(schedule.status());
        return current;
      },
      operation, costs);
  if (!failed.ok()) return failed;
  return prediction;
}

Algorithm ChosenAlgorithm(const Plan& plan) { return Select(QueryOf(plan), SelectionTable()).algorithm; }

}  // namespace tutti
