// Which algorithm an operation takes, and in which pieces.
//
// A pure function of what all ranks agree on, so that they choose alike. No choice changes the result's bits.

#ifndef TUTTI_SRC_ENGINE_SELECTION_H_
#define TUTTI_SRC_ENGINE_SELECTION_H_

#include <cstdint>
#include <string>

#include "src/schedule/schedule.h"
#include "tutti/data_type.h"

namespace tutti {

struct Selection {
  Algorithm algorithm = Algorithm::kPair;
  bool wide = false;  // see Schedule::wide
  // An operation is run as independent segments, several of them at a time. Elements of the whole operand (all-reduce,
  // broadcast, send, recv) or of each block (reduce-scatter, all-gather) in one segment; at least 1.
  uint64_t segment_count = 1;
  const char* reason = "";
};

// Overrides the choice where it can be honoured; for tests and measurements, and equal on all ranks.
struct SelectionOverride {
  bool has_algorithm = false;
  Algorithm algorithm = Algorithm::kDirect;  // ignored by collectives that have no such algorithm
  uint64_t chunk_bytes = 0;                  // of one message; 0: the default
};

// `count`: elements of the operand, or of one block for reduce-scatter and all-gather. `op` matters to reductions only.
Selection Select(Collective collective, int size, uint64_t count, DataType type, ReduceOp op,
                 const SelectionOverride& override = {});

// The switch points, one line each.
std::string DescribeSelection(int size);

}  // namespace tutti

#endif  // TUTTI_SRC_ENGINE_SELECTION_H_
