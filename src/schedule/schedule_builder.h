// ScheduleBuilder: the one way to construct a Schedule.
//
// A builder writes down the steps of a rank in the order in which a single thread could run them, and the dependencies
// follow from what they touch: a step waits for the last step that wrote what it reads, and for the last writer and the
// readers since of what it writes. kInput and kOutput count as the same memory where they may be (MayBeInPlace). So
// every schedule is free of hazards, and no step waits for one that it has nothing to do with.
//
// O(1) amortised for each slice that a step touches.

#ifndef TUTTI_SRC_SCHEDULE_SCHEDULE_BUILDER_H_
#define TUTTI_SRC_SCHEDULE_SCHEDULE_BUILDER_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "src/schedule/builders.h"
#include "src/schedule/schedule.h"

namespace tutti {

class ScheduleBuilder {
 public:
  // The position of a step in the list.
  using StepIndex = uint32_t;

  ScheduleBuilder(const ScheduleKey& key, uint32_t slices);

  // A new plane for the slices [first, first + count).
  Space AddPlane(uint32_t first, uint32_t count);

  StepIndex Send(const Operand& from, int peer);
  StepIndex Recv(int peer, const Operand& to);
  StepIndex Copy(const Operand& from, const Operand& to);
  // to = canonical tree over sources.
  StepIndex Reduce(absl::Span<const Operand> sources, const Operand& to);
  StepIndex ReduceFinal(absl::Span<const Operand> sources, const Operand& to);
  // Turns a complete partial result into the final one: in a wide schedule a conversion, else a reduction of one
  // source.
  StepIndex Finish(const Operand& partial, const Operand& to);

  // For what is not seen in memory: `after` also waits for `before`. Directly after `after` was added.
  void Order(StepIndex before, StepIndex after);

  Schedule Build() &&;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  // Who touched one slice of one memory last.
  struct Cell {
    StepIndex writer = kNone;
    uint32_t readers = kNone;  // since then: head of a list in readers_
  };
  struct Reader {
    StepIndex step;
    uint32_t next;
  };

  StepIndex Add(StepKind kind, bool final, int peer, absl::Span<const Operand> reads, const Operand* writes);
  absl::Span<Cell> CellsOf(const Operand& operand);
  void Read(StepIndex step, const Operand& operand);
  void Write(StepIndex step, const Operand& operand);

  Schedule schedule_;
  uint32_t output_cells_;  // where the cells of kOutput begin
  std::vector<Cell> cells_;
  std::vector<uint32_t> plane_cells_;  // where those of each plane begin
  std::vector<Reader> readers_;
  std::vector<std::pair<StepIndex, StepIndex>> edges_;  // before, after; by after
  std::vector<StepIndex> last_edge_;                    // of each step: the last step that waits for it
};

}  // namespace tutti

#endif  // TUTTI_SRC_SCHEDULE_SCHEDULE_BUILDER_H_
