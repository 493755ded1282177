// What an instruction set supplies to a reduction: loops over whole vectors. Everything around them, the tree over many
// sources and the elements that fill no vector, is done here once for all types, operators and instruction sets.
//
// Pure functions, safe to call from any thread. No allocation.

#ifndef TUTTI_SRC_REDUCE_LOOPS_H_
#define TUTTI_SRC_REDUCE_LOOPS_H_

#include <cstddef>
#include <cstdint>

namespace tutti {

// dst = tree over the sources, divided or not, for `vectors` times Loops::lanes elements. Any alignment; dst may be one
// of the sources.
using Loop = void (*)(char* dst, const char* const* sources, size_t vectors, double divisor);

// Loops by their number of sources, null for most.
inline constexpr size_t kMostSources = 8;
struct LoopTable {
  Loop of[kMostSources + 1] = {};
};

// The loops of a reduction from elements of one format to elements of another, with accumulators between them.
struct Loops {
  size_t in_bytes = 0;  // of one element or accumulator
  size_t accumulator_bytes = 0;
  size_t out_bytes = 0;
  size_t lanes = 0;             // elements in a vector
  bool copies = false;          // one source that is not divided is the result as it stands
  LoopTable plain = {};         // elements to elements: 1 source; 2, 3, 4, 8 where it is worth its weight in code
  LoopTable divided = {};       // likewise, divided at the end; all null if the operator has no divisor
  LoopTable leaves = {};        // elements to accumulators: 1, 2, 4 and 8
  Loop combine = nullptr;       // two accumulators to one
  Loop last = nullptr;          // two accumulators to an element
  Loop last_divided = nullptr;  // likewise, divided at the end
};

// A ReduceFunction and, with one source, a ConvertFunction: see reduce.h.
void Evaluate(const Loops& loops, void* dst, const void* const* sources, size_t source_count, size_t count,
              double divisor);

}  // namespace tutti

#endif  // TUTTI_SRC_REDUCE_LOOPS_H_
