#include "src/engine/selection.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/reduce/reduce.h"
#include "src/schedule/builders.h"

namespace tutti {
namespace {

// One message of a large operation: large enough that a system call is cheap, small enough that what was received is
// still in the cache when it is reduced.
constexpr uint64_t kChunkBytes = 256 << 10;
// A message that nobody reduces.
constexpr uint64_t kCopyChunkBytes = 1 << 20;
// All messages of one segment together stay below this where that leaves a message kChunkBytesMin.
constexpr uint64_t kSegmentBytes = 8 << 20;
constexpr uint64_t kChunkBytesMin = 16 << 10;
// More than any operand has.
constexpr uint64_t kAllBytes = uint64_t{1} << 62;

std::vector<SelectionRule> DefaultRules() {
  constexpr int kAnySize = std::numeric_limits<int>::max();
  constexpr uint64_t kAnyBytes = std::numeric_limits<uint64_t>::max();
  // Direct exchange opens a connection to every rank.
  constexpr int kDirectSize = 64;
  return {
      // At n = 2 an exchange of whole operands moves no more bytes than any other algorithm.
      {Collective::kAllReduce, 2, 1 << 20, Algorithm::kExchange, 512 << 10, "two ranks: one step"},
      {Collective::kAllReduce, 2, kAnyBytes, Algorithm::kDirect, 512 << 10, "two ranks, large: less to reduce"},
      {Collective::kAllReduce, kDirectSize, 8 << 10, Algorithm::kDoubling, 0, "small: fewest messages"},
      {Collective::kAllReduce, kDirectSize, kAnyBytes, Algorithm::kHalving, 0, "fewest bytes, few messages", true},
      {Collective::kAllReduce, kDirectSize, kAnyBytes, Algorithm::kDirect, 0, "fewest bytes, inputs travel unwidened"},
      {Collective::kAllReduce, kAnySize, 4 << 10, Algorithm::kQuadrupling, 0, "many ranks, small: few steps"},
      {Collective::kAllReduce, kAnySize, 64 << 10, Algorithm::kDoubling, 0, "many ranks: few steps and connections"},
      {Collective::kAllReduce, kAnySize, kAnyBytes, Algorithm::kHalving, 0, "many ranks, large: fewest bytes"},

      {Collective::kReduce, 16, 4 << 10, Algorithm::kGather, 0, "small: one step"},
      {Collective::kReduce, 2, kAnyBytes, Algorithm::kGather, 0, "two ranks: one step"},
      {Collective::kReduce, kDirectSize, kAnyBytes, Algorithm::kDirect, 0, "fewest bytes, two steps"},
      {Collective::kReduce, kAnySize, kAnyBytes, Algorithm::kTree, 0, "many ranks: few steps and connections"},

      {Collective::kReduceScatter, kDirectSize, kAnyBytes, Algorithm::kDirect, 0, "fewest bytes, one step"},
      {Collective::kReduceScatter, kAnySize, kAnyBytes, Algorithm::kHalving, 0, "many ranks: few connections"},

      {Collective::kAllGather, 8, kAnyBytes, Algorithm::kDirect, 0, "one step"},
      {Collective::kAllGather, kDirectSize, 16 << 10, Algorithm::kBruck, 0, "small: few messages one after another"},
      {Collective::kAllGather, kDirectSize, kAnyBytes, Algorithm::kDirect, 0, "large: one step"},
      {Collective::kAllGather, kAnySize, kAnyBytes, Algorithm::kBruck, 0, "many ranks: few steps and connections"},

      {Collective::kBroadcast, 2, kAnyBytes, Algorithm::kTree, 0, "two ranks"},
      {Collective::kBroadcast, kAnySize, 256 << 10, Algorithm::kTree, 0, "small: few steps"},
      {Collective::kBroadcast, kDirectSize, kAnyBytes, Algorithm::kDirect, 0, "large: fewest bytes from the root"},
      {Collective::kBroadcast, kAnySize, kAnyBytes, Algorithm::kTree, 0, "many ranks: few connections"},

      {Collective::kGather, kDirectSize, kAnyBytes, Algorithm::kDirect, 0, "one step"},
      {Collective::kGather, kAnySize, kAnyBytes, Algorithm::kTree, 0, "many ranks: few connections"},
      {Collective::kScatter, kDirectSize, kAnyBytes, Algorithm::kDirect, 0, "one step"},
      {Collective::kScatter, kAnySize, kAnyBytes, Algorithm::kTree, 0, "many ranks: few connections"},
      {Collective::kAllToAll, kDirectSize, kAnyBytes, Algorithm::kDirect, 0, "one step"},
      {Collective::kAllToAll, kAnySize, kAnyBytes, Algorithm::kBruck, 0, "many ranks: few steps and connections"},

      {Collective::kBarrier, kAnySize, kAnyBytes, Algorithm::kBruck, 0, "the only one"},
      {Collective::kSend, kAnySize, kAnyBytes, Algorithm::kPair, 0, "the only one"},
      {Collective::kRecv, kAnySize, kAnyBytes, Algorithm::kPair, 0, "the only one"},
      // Uneven blocks among very many ranks: nobody in between could know their sizes.
      {Collective::kReduceScatter, kAnySize, kAnyBytes, Algorithm::kDirect, 0, "uneven blocks"},
      {Collective::kGather, kAnySize, kAnyBytes, Algorithm::kDirect, 0, "uneven blocks"},
      {Collective::kScatter, kAnySize, kAnyBytes, Algorithm::kDirect, 0, "uneven blocks"},
      {Collective::kAllToAll, kAnySize, kAnyBytes, Algorithm::kDirect, 0, "uneven blocks"},
  };
}

// Whether every rank on the way knows how much it moves.
bool TakesUnevenBlocks(Collective collective, Algorithm algorithm) {
  return algorithm == Algorithm::kDirect || collective == Collective::kAllGather;
}

bool IsAvailable(const SelectionRule& rule, int size, bool uneven) {
  if (uneven && !TakesUnevenBlocks(rule.collective, rule.algorithm)) return false;
  return rule.algorithm == Algorithm::kShared || IsOffered(rule.collective, rule.algorithm, size);
}

// `widens`: partial results would travel in another type than the element's.
const SelectionRule* Find(const SelectionTable& table, Collective collective, int size, uint64_t bytes, bool uneven,
                          bool widens) {
  for (const SelectionRule& rule : table.rules()) {
    if (rule.collective == collective && size <= rule.ranks_max && bytes <= rule.bytes_max &&
        !(rule.if_narrow && widens) && IsAvailable(rule, size, uneven)) {
      return &rule;
    }
  }
  return nullptr;
}

// Whether the operand is cut into a slice for each rank.
bool IsSliced(const SelectionRule& rule) {
  return !HasBlocks(rule.collective) && (rule.algorithm == Algorithm::kDirect || rule.algorithm == Algorithm::kRing);
}

// Bytes of a segment, of the operand or of one block as Selection::segment_count counts.
uint64_t SegmentBytes(const SelectionRule& rule, int size) {
  const auto n = static_cast<uint64_t>(size);
  const bool asked = rule.chunk_bytes != 0;
  const uint64_t chunk = asked ? rule.chunk_bytes : std::clamp(kSegmentBytes / n, kChunkBytesMin, kChunkBytes);
  const bool sliced = IsSliced(rule);
  if (rule.algorithm == Algorithm::kShared) return kAllBytes;
  switch (rule.collective) {
    case Collective::kAllReduce:
      return sliced ? n * chunk : rule.algorithm == Algorithm::kHalving ? 4 * chunk : chunk;
    case Collective::kReduce:
    case Collective::kBroadcast:
      return sliced ? n * chunk : asked || rule.collective == Collective::kReduce ? chunk : kCopyChunkBytes;
    case Collective::kReduceScatter:
      return chunk;
    case Collective::kGather:
    case Collective::kScatter:
    case Collective::kAllToAll:
      // Blocks of other ranks wait in scratch.
      if (rule.algorithm != Algorithm::kDirect && !asked) return std::max<uint64_t>(1 << 10, kSegmentBytes / n);
      break;
    default:
      break;
  }
  return asked ? chunk : kCopyChunkBytes;
}

}  // namespace

SelectionTable::SelectionTable() : rules_(DefaultRules()) {}

void SelectionTable::Prefer(std::vector<SelectionRule> rules) {
  preferred_ += rules.size();
  rules_.insert(rules_.begin(), std::make_move_iterator(rules.begin()), std::make_move_iterator(rules.end()));
}

void SelectionTable::ShareMemory() {
  auto place = rules_.begin() + static_cast<ptrdiff_t>(preferred_);
  for (const Collective collective : {Collective::kAllReduce, Collective::kBarrier}) {
    place = rules_.insert(place, {.collective = collective, .algorithm = Algorithm::kShared, .reason = "on one host"});
  }
}

Selection Select(const SelectionQuery& query, const SelectionTable& table) {
  const uint64_t bytes = query.uneven ? 0 : query.count * ByteSize(query.type);
  const bool widens = AccumulatorType(query.type, query.op) != query.type;
  const SelectionRule* rule = Find(table, query.collective, query.size, bytes, query.uneven, widens);
  if (rule == nullptr) return {.algorithm = Algorithm::kDirect, .segment_count = 1, .reason = "nothing fits"};
  const uint64_t segment_count = std::max<uint64_t>(1, SegmentBytes(*rule, query.size) / ByteSize(query.type));
  const uint64_t largest = std::min(query.uneven ? segment_count : query.count, segment_count);
  return {.algorithm = rule->algorithm,
          .wide = MayBeWide(query.collective, rule->algorithm) && widens,
          .segment_count = segment_count,
          .message_bytes = largest * ByteSize(query.type) / (IsSliced(*rule) ? static_cast<uint64_t>(query.size) : 1),
          .reason = rule->reason};
}

std::string DescribeSelection(const SelectionTable& table, int size) {
  std::string text;
  for (int code = 0; code <= static_cast<int>(Collective::kAllToAll); ++code) {
    const auto collective = static_cast<Collective>(code);
    absl::StrAppend(&text, text.empty() ? "" : "\n", Name(collective), " = ");
    uint64_t bytes = 0;
    while (const SelectionRule* rule = Find(table, collective, size, bytes, /*uneven=*/false, /*widens=*/false)) {
      absl::StrAppend(&text, bytes == 0 ? "" : "; ", Name(rule->algorithm));
      // Up to where this rule, or a smaller one before it, decides.
      uint64_t last = rule->bytes_max;
      for (const SelectionRule& other : table.rules()) {
        const bool before = &other < rule && other.collective == collective && size <= other.ranks_max;
        if (before && other.bytes_max >= bytes && IsAvailable(other, size, false))
          last = std::min(last, other.bytes_max);
      }
      absl::StrAppend(&text,
                      last == std::numeric_limits<uint64_t>::max() ? "" : absl::StrCat(" up to ", last, " bytes"),
                      SegmentBytes(*rule, size) == kAllBytes
                          ? ""
                          : absl::StrCat(" in segments of up to ", SegmentBytes(*rule, size), " bytes"),
                      " (", rule->reason, ")");
      if (last == std::numeric_limits<uint64_t>::max()) break;
      bytes = last + 1;
    }
  }
  return text;
}

}  // namespace tutti
