#include "src/schedule/rank_check.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "src/base/status_macros.h"

namespace tutti {
namespace {

// Planes of a wide schedule hold accumulators, all other memory holds elements.
bool HoldsAccumulators(const Schedule& schedule, const Operand& operand) {
  return schedule.wide && operand.space >= kPlane;
}

// Empty, or what is wrong.
std::string CheckOperand(const Schedule& schedule, const Operand& operand) {
  if (operand.count == 0) return "an operand of no slices";
  if (operand.count > 1 && HasBlocks(schedule.collective)) return "an operand of several blocks";
  if (operand.space >= kPlane && operand.space - kPlane >= static_cast<int>(schedule.planes.size())) {
    return "there is no such plane";
  }
  const Plane held = SlicesHeld(schedule, operand.space);
  if (held.count == 0) return "this rank has no such memory";
  if (operand.first < held.first || operand.count > held.count ||
      operand.first - held.first > held.count - operand.count) {
    return absl::StrCat("the space holds only the slices from ", held.first, " to below ", held.first + held.count);
  }
  return "";
}

std::string CheckMessage(const Schedule& schedule, const Step& step) {
  if (step.source_count != 0) return "a message with sources";
  if (step.final) return "a message cannot be the final step of a reduction";
  if (step.peer < 0 || step.peer >= schedule.size || step.peer == schedule.rank) {
    return "the peer is not another rank";
  }
  return "";
}

std::string CheckResult(const Schedule& schedule, const Step& step) {
  const bool copy = step.kind == StepKind::kCopy;
  if (step.source_count == 0 || (copy && step.source_count != 1)) return "the wrong number of sources";
  if (step.final && !Reduces(schedule.collective)) return "final, but nothing is reduced";
  const bool accumulators = HoldsAccumulators(schedule, step.operand);
  if (step.final && accumulators) return "a final result in a plane of accumulators";
  if (schedule.wide && !copy && !step.final && !accumulators) return "a partial result would be rounded";
  for (const Operand& source : schedule.SourcesOf(step)) {
    if (std::string wrong = CheckOperand(schedule, source); !wrong.empty()) return "source: " + wrong;
    if (source.first != step.operand.first || source.count != step.operand.count) return "a source of other slices";
    if (!copy && HoldsAccumulators(schedule, source) != accumulators) return "sources of another type";
    if (copy && !step.final && HoldsAccumulators(schedule, source) && !accumulators) {
      return "a partial result would be rounded";
    }
  }
  return "";
}

absl::Status CheckRanges(const Schedule& schedule) {
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    if (uint64_t{step.first_source} + step.source_count > schedule.sources.size() ||
        uint64_t{step.first_successor} + step.successor_count > schedule.successors.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank ", schedule.rank, ", step ", i, ": sources or successors lie outside the schedule"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

CellNumbering::CellNumbering(const Schedule& schedule, bool in_place)
    : begin_{0, in_place ? 0 : schedule.slices}, count_((in_place ? 1 : 2) * schedule.slices) {
  for (const Plane& plane : schedule.planes) {
    begin_.push_back(count_ - plane.first);
    count_ += plane.count;
  }
}

absl::Status StepError(const Schedule& schedule, size_t step, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("rank ", schedule.rank, ", step ", step, " (",
                                                 ToString(schedule, schedule.steps[step]), "): ", what));
}

absl::Status RankCheck::Check(const Schedule& schedule) {
  TUTTI_RETURN_IF_ERROR(CheckRanges(schedule));
  for (const Plane& plane : schedule.planes) {
    if (plane.count > schedule.slices || plane.first > schedule.slices - plane.count) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank ", schedule.rank, ": a plane of slices that do not exist, ", plane.first, " and on"));
    }
  }
  for (size_t i = 0; i < schedule.steps.size(); ++i) TUTTI_RETURN_IF_ERROR(CheckStep(schedule, i));
  TUTTI_RETURN_IF_ERROR(CheckSuccessors(schedule));
  return CheckHazards(schedule);
}

absl::Status RankCheck::CheckStep(const Schedule& schedule, size_t index) const {
  const Step& step = schedule.steps[index];
  const bool message = step.kind == StepKind::kSend || step.kind == StepKind::kRecv;
  std::string wrong = CheckOperand(schedule, step.operand);
  if (wrong.empty()) wrong = message ? CheckMessage(schedule, step) : CheckResult(schedule, step);
  if (wrong.empty() && step.kind != StepKind::kSend && step.operand.space == kInput) wrong = "writes the input";
  return wrong.empty() ? absl::OkStatus() : StepError(schedule, index, wrong);
}

// Also turns the successors around, into predecessors_.
absl::Status RankCheck::CheckSuccessors(const Schedule& schedule) {
  const size_t steps = schedule.steps.size();
  first_predecessor_.assign(steps + 1, 0);
  size_t edges = 0;
  for (size_t i = 0; i < steps; ++i) {
    for (const uint32_t successor : schedule.SuccessorsOf(schedule.steps[i])) {
      if (successor <= i || successor >= steps) {
        return StepError(schedule, i, absl::StrCat("step ", successor, " cannot come after it: it is not below it"));
      }
      ++first_predecessor_[successor];
      ++edges;
    }
  }
  uint32_t end = 0;
  for (size_t i = 0; i < steps; ++i) {
    if (first_predecessor_[i] != schedule.steps[i].dependencies) {
      return StepError(schedule, i,
                       absl::StrCat("claims ", schedule.steps[i].dependencies, " dependencies, but ",
                                    first_predecessor_[i], " steps name it as their successor"));
    }
    end += first_predecessor_[i];
    first_predecessor_[i] = end;
  }
  first_predecessor_[steps] = end;
  predecessors_.resize(edges);
  for (size_t i = 0; i < steps; ++i) {
    for (const uint32_t successor : schedule.SuccessorsOf(schedule.steps[i])) {
      predecessors_[--first_predecessor_[successor]] = static_cast<uint32_t>(i);
    }
  }
  return absl::OkStatus();
}

// Two steps that touch the same cell, one of them writing, are ordered by a path of dependencies. It is enough to look
// at each read and the write before it, and at each write and the reads since the write before it, or else that write.
absl::Status RankCheck::CheckHazards(const Schedule& schedule) {
  const CellNumbering numbering(schedule, /*in_place=*/MayBeInPlace(schedule.collective));
  cells_.assign(numbering.count(), Cell{});
  readers_.clear();
  marks_.assign(schedule.steps.size(), kNone);
  visited_.assign(schedule.steps.size(), false);
  for (uint32_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    MarkPredecessors(i);
    for (const Operand& source : schedule.SourcesOf(step)) {
      TUTTI_RETURN_IF_ERROR(Read(schedule, i, source, numbering.FirstOf(source)));
    }
    const uint32_t cell = numbering.FirstOf(step.operand);
    TUTTI_RETURN_IF_ERROR(step.kind == StepKind::kSend ? Read(schedule, i, step.operand, cell)
                                                       : Write(schedule, i, step.operand, cell));
  }
  return absl::OkStatus();
}

absl::Status RankCheck::Read(const Schedule& schedule, uint32_t step, const Operand& operand, uint32_t cell) {
  for (uint32_t i = 0; i < operand.count; ++i) {
    Cell& read = cells_[cell + i];
    if (read.writer != kNone && !Ordered(read.writer, step)) {
      return StepError(schedule, step,
                       absl::StrCat("reads slice ", operand.first + i, " but does not wait for step ", read.writer,
                                    ", which writes it"));
    }
    if (read.writer != kNone && operand.space == kInput) {
      return StepError(schedule, step,
                       absl::StrCat("reads input slice ", operand.first + i, ", which step ", read.writer,
                                    " has overwritten in place"));
    }
    readers_.push_back({step, read.readers});
    read.readers = static_cast<uint32_t>(readers_.size() - 1);
  }
  return absl::OkStatus();
}

absl::Status RankCheck::Write(const Schedule& schedule, uint32_t step, const Operand& operand, uint32_t cell) {
  for (uint32_t i = 0; i < operand.count; ++i) {
    Cell& written = cells_[cell + i];
    for (uint32_t reader = written.readers; reader != kNone; reader = readers_[reader].next) {
      const uint32_t other = readers_[reader].step;
      if (other == step || Ordered(other, step)) continue;
      return StepError(
          schedule, step,
          absl::StrCat("writes slice ", operand.first + i, " but does not wait for step ", other, ", which reads it"));
    }
    if (written.readers == kNone && written.writer != kNone && !Ordered(written.writer, step)) {
      return StepError(schedule, step,
                       absl::StrCat("writes slice ", operand.first + i, " but does not wait for step ", written.writer,
                                    ", which writes it too"));
    }
    written = {.writer = step};
  }
  return absl::OkStatus();
}

void RankCheck::MarkPredecessors(uint32_t step) {
  for (uint32_t i = first_predecessor_[step]; i < first_predecessor_[step + 1]; ++i) marks_[predecessors_[i]] = step;
}

bool RankCheck::Ordered(uint32_t earlier, uint32_t later) {
  if (marks_[earlier] == later) return true;
  // Rare: builders order such steps directly.
  visited_.assign(visited_.size(), false);
  stack_.assign(1, later);
  while (!stack_.empty()) {
    const uint32_t step = stack_.back();
    stack_.pop_back();
    for (uint32_t i = first_predecessor_[step]; i < first_predecessor_[step + 1]; ++i) {
      const uint32_t predecessor = predecessors_[i];
      if (predecessor == earlier) return true;
      if (predecessor < earlier || visited_[predecessor]) continue;
      visited_[predecessor] = true;
      stack_.push_back(predecessor);
    }
  }
  return false;
}

}  // namespace tutti
