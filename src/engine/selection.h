// Which algorithm an operation takes, and in which pieces.
//
// A pure function of what all ranks agree on, so that they choose alike. No choice changes the result's bits, but ring.

#ifndef TUTTI_SRC_ENGINE_SELECTION_H_
#define TUTTI_SRC_ENGINE_SELECTION_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/schedule/schedule.h"
#include "tutti/data_type.h"

namespace tutti {

// A switch point: up to so many ranks and bytes, a collective takes this algorithm. Passed over where the algorithm is
// not available.
struct SelectionRule {
  Collective collective = Collective::kBarrier;
  int ranks_max = std::numeric_limits<int>::max();
  // Of the operand; of one block for collectives of blocks. Uneven blocks count as of 0 bytes, as not all ranks know.
  uint64_t bytes_max = std::numeric_limits<uint64_t>::max();
  Algorithm algorithm = Algorithm::kDirect;
  uint64_t chunk_bytes = 0;  // of one message of a large operation; 0: the default
  std::string reason;
  bool if_narrow = false;  // only where partial results travel in the element type (Schedule::wide)
  uint64_t bytes_min = 0;  // as bytes_max
  bool if_apart = false;   // only where each rank has a host of its own
};

// The first rule that fits decides. Immutable, but for Prefer.
class SelectionTable {
 public:
  // The switch points measured by us.
  SelectionTable();

  // Before all rules so far.
  void Prefer(std::vector<SelectionRule> rules);
  // For ranks that all share memory: kShared is taken, but where a preferred rule says otherwise.
  void ShareMemory();
  const std::vector<SelectionRule>& rules() const { return rules_; }

 private:
  std::vector<SelectionRule> rules_;
  size_t preferred_ = 0;  // rules, the first
};

// The default table with rules before it, separated by semicolons or ends of lines:
//
//   COLLECTIVE [ranks<=N] [bytes<=SIZE] = ALGORITHM [chunk=SIZE]
//
// as in "all-reduce ranks<=8 bytes<=4K = exchange; all-reduce = ring chunk=1M". SIZE is a number, with K, M or G for
// binary multiples. A rule for an algorithm that is not available for a number of ranks is passed over there.
// kInvalidArgument quotes the rule and says what is wrong with it.
absl::StatusOr<SelectionTable> ParseSelectionTable(absl::string_view text);

struct Selection {
  Algorithm algorithm = Algorithm::kPair;
  bool wide = false;       // see Schedule::wide
  int ranks_per_host = 1;  // see ScheduleKey::ranks_per_host
  // An operation is run as independent segments, several of them at a time. Elements of the operand, or of each block,
  // in one segment; at least 1.
  uint64_t segment_count = 1;
  uint64_t message_bytes = 0;  // of the largest messages
  absl::string_view reason;    // lives as long as the table
};

struct SelectionQuery {
  Collective collective = Collective::kBarrier;
  int size = 1;        // ranks
  uint64_t count = 0;  // elements of the operand, or of one block
  DataType type = DataType::kUInt8;
  ReduceOp op = ReduceOp::kSum;  // reductions only
  bool uneven = false;           // blocks of different sizes
  int ranks_per_host = 0;        // see EngineOptions::ranks_per_host
};
Selection Select(const SelectionQuery& query, const SelectionTable& table);

// The switch points that matter for so many ranks, one line per collective.
std::string DescribeSelection(const SelectionTable& table, int size, int ranks_per_host = 0);

}  // namespace tutti

#endif  // TUTTI_SRC_ENGINE_SELECTION_H_
