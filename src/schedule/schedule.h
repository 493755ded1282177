// A collective as data: what one rank does, as steps over slices.
//
// A schedule knows no bytes, no sockets and no threads. The operands of the collective are cut into *slices*; a step
// moves or reduces a range of them. Builders (builders.h) are pure functions that make the schedule of one rank; the
// verifier (verifier.h) proves the schedules of all ranks together; the engine runs one over a transport.
//
// There are no rounds: a step runs as soon as the steps it depends on are done.
//
// Immutable after construction, and so safe to share between threads.

#ifndef TUTTI_SRC_SCHEDULE_SCHEDULE_H_
#define TUTTI_SRC_SCHEDULE_SCHEDULE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tutti {

enum class Collective : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kBarrier,
  kSend,
  kRecv,
  kReduce,
  kGather,
  kScatter,
  kAllToAll,
};
absl::string_view Name(Collective collective);

constexpr bool Reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduceScatter ||
         collective == Collective::kReduce;
}
// Whether the operand consists of n equal blocks, one slice each, rather than being partitioned into slices.
constexpr bool HasBlocks(Collective collective) {
  return collective == Collective::kReduceScatter || collective == Collective::kAllGather ||
         collective == Collective::kGather || collective == Collective::kScatter || collective == Collective::kAllToAll;
}
// Whether kInput and kOutput may be the same memory.
constexpr bool MayBeInPlace(Collective collective) { return collective != Collective::kAllToAll; }

// How a collective is carried out. All but kAuto appear in schedules.
enum class Algorithm : uint8_t {
  kGather,    // all-reduce: gather all inputs by Bruck's doubling distances, reduce them locally; any n, ceil(log2 n)
              // deep. reduce: all inputs go to the root at once.
  kDoubling,  // all-reduce: exchange whole partial sums with the rank at distance 1, 2, 4, ...
  kHalving,   // all-reduce, reduce-scatter: exchange halves at distance 1, 2, 4, ..., then (all-reduce) gather them
              // back.
  kDirect,    // all but barrier, send, recv: every rank sends each rank its slice.
  kBruck,     // all-gather, all-to-all, barrier: doubling distances, any n.
  kTree,      // broadcast, reduce, gather, scatter: binomial tree.
  kPair,      // send, recv.
  kExchange,  // all-reduce: every rank sends its whole input to every other.
  kQuadrupling,   // all-reduce: kDoubling in groups of four, at distance 1, 4, 16, ...
  kRing,          // all-reduce, reduce-scatter, all-gather: slices go round from neighbour to neighbour. Reduces in an
                  // order of its own (ring.cc): the only one not to evaluate the canonical tree.
  kHierarchical,  // all-reduce, of hosts with equally many neighbouring ranks: kDirect inside each host, where every
                  // rank leads a part of the operand, and between the leaders of the same part.
  kShared,        // all-reduce, barrier: in memory that all ranks address; no schedule, the transport does it.
};
absl::string_view Name(Algorithm algorithm);

// Where an operand lies. The engine binds the spaces to memory.
//
//   kInput, kOutput  the caller's memory. In place they are the same memory, slice by slice; all-to-all is never in
//                    place.
//   kPlane + p       scratch plane p, which holds the slices [plane.first, plane.first + plane.count) of the same
//                    sizes.
//
// How a space is cut: for all-reduce, reduce and broadcast the operand is partitioned into `slices` nearly equal parts.
// Elsewhere (HasBlocks) it consists of n equal blocks, one slice each, and an operand of one block is slice `rank`:
//
//                    kInput                              kOutput
//   reduce-scatter   n blocks                            slice `rank`
//   all-gather       slice `rank`                        n blocks
//   gather           slice `rank`                        n blocks on the root, no memory elsewhere
//   scatter          n blocks on the root, no memory     slice `rank`
//                    elsewhere
//   all-to-all       n blocks: slice d is for rank       n blocks: slice d is from rank
//                    (rank + d) mod n                    (rank - d) mod n
//
// The blocks of all-to-all are numbered by distance, so that a block keeps its number on its whole way. The output of a
// reduce is the root's alone: elsewhere there is no memory. What a broadcast sends lies in the root's kInput and
// arrives in the others' kOutput.
using Space = uint16_t;
inline constexpr Space kInput = 0;
inline constexpr Space kOutput = 1;
inline constexpr Space kPlane = 2;

struct Operand {
  Space space = kInput;
  uint32_t first = 0;  // slice; numbered alike in all spaces
  uint32_t count = 1;  // slices; more than 1 only where the operand is partitioned (they are then adjacent in memory)
  friend bool operator==(const Operand&, const Operand&) = default;
};

struct Plane {
  uint32_t first = 0;
  uint32_t count = 0;
};

enum class StepKind : uint8_t {
  kSend,    // operand -> peer. Done when the memory may be overwritten.
  kRecv,    // peer -> operand. The k-th kRecv from a peer in the list matches that peer's k-th kSend to this rank.
  kReduce,  // operand = canonical tree over sources, in the order given (canonical_tree.h)
  kCopy,    // operand = sources[0], converting between element and accumulator type
};

struct Step {
  StepKind kind = StepKind::kSend;
  // kReduce, kCopy: this result is final: divide, and round to the element type. Only with an operand in kOutput, or in
  // a plane when all that follows are moves.
  bool final = false;
  int32_t peer = -1;  // kSend, kRecv
  Operand operand;
  // Ranges of Schedule::sources and Schedule::successors.
  uint32_t first_source = 0, source_count = 0;
  uint32_t first_successor = 0, successor_count = 0;
  // Steps that must be done before this one may begin; each names this step among its successors.
  uint32_t dependencies = 0;
};

struct Schedule {
  Collective collective = Collective::kBarrier;
  Algorithm algorithm = Algorithm::kTree;
  int size = 1;
  int rank = 0;
  int root = 0;
  uint32_t slices = 1;
  // Scratch planes hold the accumulator type (fp32 for 16-bit floats, 64 bits for the average of integers) instead of
  // the element type: partial results travel unrounded.
  bool wide = false;

  std::vector<Plane> planes;
  std::vector<Step> steps;  // in an order that respects the dependencies
  std::vector<Operand> sources;
  std::vector<uint32_t> successors;

  absl::Span<const Operand> SourcesOf(const Step& step) const {
    return absl::MakeConstSpan(sources).subspan(step.first_source, step.source_count);
  }
  absl::Span<const uint32_t> SuccessorsOf(const Step& step) const {
    return absl::MakeConstSpan(successors).subspan(step.first_successor, step.successor_count);
  }
};

// Where a slice of a partitioned operand begins, or ends as the next one: after so many of its elements. Slices are as
// equal as can be if each begins at a multiple of `alignment` elements, so the last ones may be shorter or empty.
inline constexpr size_t kSliceAlignmentBytes = 64;  // a cache line
constexpr uint64_t SliceStart(uint64_t slice, uint64_t slices, uint64_t elements, uint64_t alignment) {
  const uint64_t even = (elements + slices - 1) / slices;
  return std::min(elements, slice * ((even + alignment - 1) / alignment * alignment));
}

// The slices of a space for which this rank has memory; none if the operand does not exist here. The space exists.
Plane SlicesHeld(const Schedule& schedule, Space space);

// "send output[3] to 1", "reduce final output[0] = plane0[0], input[0]"
std::string ToString(const Schedule& schedule, const Step& step);
// One step a line, for people.
std::string ToString(const Schedule& schedule);

}  // namespace tutti

#endif  // TUTTI_SRC_SCHEDULE_SCHEDULE_H_
