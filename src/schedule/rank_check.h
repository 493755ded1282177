// The part of the verifier that looks at one rank alone: is its schedule well-formed, and free of hazards, in
// place if there may be?

#ifndef TUTTI_SRC_SCHEDULE_RANK_CHECK_H_
#define TUTTI_SRC_SCHEDULE_RANK_CHECK_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "src/schedule/schedule.h"

namespace tutti {

// Numbers the slices of a rank's memories: first kInput's, then kOutput's, which are the same if in place, then the
// planes'.
class CellNumbering {
 public:
  CellNumbering(const Schedule& schedule, bool in_place);
  uint32_t count() const { return count_; }
  // The cell of the operand's first slice; the others follow.
  uint32_t FirstOf(const Operand& operand) const { return begin_[operand.space] + operand.first; }

 private:
  std::vector<uint32_t> begin_;  // of each space: its first cell, less its first slice
  uint32_t count_;
};

// "rank 3, step 7 (recv plane0[2] from 5): what"
absl::Status StepError(const Schedule& schedule, size_t step, absl::string_view what);

// Checks one schedule after the other; keeps its memory in between.
class RankCheck {
 public:
  // The error names rank and step.
  absl::Status Check(const Schedule& schedule);

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  // The accesses of a cell since, and with, the last write.
  struct Cell {
    uint32_t writer = kNone;
    uint32_t readers = kNone;  // head of a list in readers_
  };
  struct Reader {
    uint32_t step;
    uint32_t next;
  };

  absl::Status CheckStep(const Schedule& schedule, size_t index) const;
  absl::Status CheckSuccessors(const Schedule& schedule);
  absl::Status CheckHazards(const Schedule& schedule);
  absl::Status Read(const Schedule& schedule, uint32_t step, const Operand& operand, uint32_t cell);
  absl::Status Write(const Schedule& schedule, uint32_t step, const Operand& operand, uint32_t cell);
  // Whether `later`, which MarkPredecessors was called for, waits for `earlier`, perhaps by way of other steps.
  bool Ordered(uint32_t earlier, uint32_t later);
  void MarkPredecessors(uint32_t step);

  std::vector<uint32_t> predecessors_;       // by step
  std::vector<uint32_t> first_predecessor_;  // one more than steps
  std::vector<Cell> cells_;
  std::vector<Reader> readers_;
  std::vector<uint32_t> marks_;  // of step u: the step whose direct predecessor it is
  std::vector<bool> visited_;
  std::vector<uint32_t> stack_;
};

}  // namespace tutti

#endif  // TUTTI_SRC_SCHEDULE_RANK_CHECK_H_
