#include "src/schedule/schedule_builder.h"

#include <cassert>
#include <utility>

namespace tutti {

ScheduleBuilder::ScheduleBuilder(const ScheduleKey& key, uint32_t slices)
    : output_cells_(MayBeInPlace(key.collective) ? 0 : slices), cells_(output_cells_ + slices) {
  schedule_.collective = key.collective;
  schedule_.algorithm = key.algorithm;
  schedule_.size = key.size;
  schedule_.rank = key.rank;
  schedule_.root = key.root;
  schedule_.wide = key.wide;
  schedule_.slices = slices;
}

Space ScheduleBuilder::AddPlane(uint32_t first, uint32_t count) {
  assert(first + count <= schedule_.slices);
  schedule_.planes.push_back({first, count});
  plane_cells_.push_back(static_cast<uint32_t>(cells_.size()));
  cells_.resize(cells_.size() + count);
  return static_cast<Space>(kPlane + schedule_.planes.size() - 1);
}

ScheduleBuilder::StepIndex ScheduleBuilder::Send(const Operand& from, int peer) {
  const StepIndex step = Add(StepKind::kSend, /*final=*/false, peer, {from}, nullptr);
  schedule_.steps.back().operand = from;
  return step;
}

ScheduleBuilder::StepIndex ScheduleBuilder::Recv(int peer, const Operand& to) {
  return Add(StepKind::kRecv, /*final=*/false, peer, {}, &to);
}

ScheduleBuilder::StepIndex ScheduleBuilder::Copy(const Operand& from, const Operand& to) {
  return Add(StepKind::kCopy, /*final=*/false, -1, {from}, &to);
}

ScheduleBuilder::StepIndex ScheduleBuilder::Reduce(absl::Span<const Operand> sources, const Operand& to) {
  return Add(StepKind::kReduce, /*final=*/false, -1, sources, &to);
}

ScheduleBuilder::StepIndex ScheduleBuilder::ReduceFinal(absl::Span<const Operand> sources, const Operand& to) {
  return Add(StepKind::kReduce, /*final=*/true, -1, sources, &to);
}

ScheduleBuilder::StepIndex ScheduleBuilder::Finish(const Operand& partial, const Operand& to) {
  return Add(schedule_.wide ? StepKind::kCopy : StepKind::kReduce, /*final=*/true, -1, {partial}, &to);
}

ScheduleBuilder::StepIndex ScheduleBuilder::Add(StepKind kind, bool final, int peer, absl::Span<const Operand> reads,
                                                const Operand* writes) {
  const StepIndex index = static_cast<StepIndex>(schedule_.steps.size());
  Step step;
  step.kind = kind;
  step.final = final;
  step.peer = peer;
  step.first_source = static_cast<uint32_t>(schedule_.sources.size());
  if (writes != nullptr) {
    step.operand = *writes;
    step.source_count = static_cast<uint32_t>(reads.size());
    schedule_.sources.insert(schedule_.sources.end(), reads.begin(), reads.end());
  }
  schedule_.steps.push_back(step);
  last_edge_.push_back(kNone);
  for (const Operand& operand : reads) Read(index, operand);
  if (writes != nullptr) Write(index, *writes);
  return index;
}

absl::Span<ScheduleBuilder::Cell> ScheduleBuilder::CellsOf(const Operand& operand) {
  if (operand.space == kInput) return absl::MakeSpan(cells_).subspan(operand.first, operand.count);
  if (operand.space == kOutput) return absl::MakeSpan(cells_).subspan(output_cells_ + operand.first, operand.count);
  const size_t plane = operand.space - kPlane;
  const uint32_t begin = plane_cells_[plane] + (operand.first - schedule_.planes[plane].first);
  return absl::MakeSpan(cells_).subspan(begin, operand.count);
}

void ScheduleBuilder::Read(StepIndex step, const Operand& operand) {
  for (Cell& cell : CellsOf(operand)) {
    if (cell.writer != kNone) Order(cell.writer, step);
    readers_.push_back({step, cell.readers});
    cell.readers = static_cast<uint32_t>(readers_.size() - 1);
  }
}

void ScheduleBuilder::Write(StepIndex step, const Operand& operand) {
  for (Cell& cell : CellsOf(operand)) {
    // The readers already wait for the writer.
    if (cell.readers == kNone && cell.writer != kNone) Order(cell.writer, step);
    for (uint32_t reader = cell.readers; reader != kNone; reader = readers_[reader].next) {
      if (readers_[reader].step != step) Order(readers_[reader].step, step);
    }
    cell = {.writer = step};
  }
}

void ScheduleBuilder::Order(StepIndex before, StepIndex after) {
  assert(before < after && after + 1 == schedule_.steps.size());
  if (last_edge_[before] == after) return;
  last_edge_[before] = after;
  edges_.emplace_back(before, after);
  ++schedule_.steps[before].successor_count;
  ++schedule_.steps[after].dependencies;
}

Schedule ScheduleBuilder::Build() && {
  uint32_t end = 0;
  for (Step& step : schedule_.steps) {
    step.first_successor = end;
    end += step.successor_count;
    step.successor_count = 0;
  }
  schedule_.successors.resize(end);
  for (const auto& [before, after] : edges_) {
    Step& step = schedule_.steps[before];
    schedule_.successors[step.first_successor + step.successor_count++] = after;
  }
  return std::move(schedule_);
}

}  // namespace tutti
