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
  // To every rank of its host, and to one on every other: 64 hosts of 8.
  constexpr int kHierarchicalSize = 512;
  return {
      {.collective = Collective::kAllReduce,
       .ranks_max = kDirectSize,
       .algorithm = Algorithm::kDirect,
       .chunk_bytes = 64 << 10,
       .reason = "a host each: all links busy in both directions",
       .bytes_min = 1 << 20,
       .if_apart = true},
      // At n = 2 an exchange of whole operands moves no more bytes than any other algorithm.
      {Collective::kAllReduce, 2, 512 << 10, Algorithm::kExchange, 512 << 10, "two ranks: one step"},
      {Collective::kAllReduce, 2, kAnyBytes, Algorithm::kDirect, 512 << 10, "two ranks, large: less to reduce"},
      {.collective = Collective::kAllReduce,
       .ranks_max = kHierarchicalSize,
       .algorithm = Algorithm::kHierarchical,
       .chunk_bytes = 512 << 10,
       .reason = "several hosts: fewest bytes between them, one pass",
       .bytes_min = 64 << 10},
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

// Whether partial results would travel in another type than the element's.
bool Widens(const SelectionQuery& query) { return AccumulatorType(query.type, query.op) != query.type; }

bool IsAvailable(const SelectionRule& rule, const SelectionQuery& query) {
  if (query.uneven && !TakesUnevenBlocks(rule.collective, rule.algorithm)) return false;
  return rule.algorithm == Algorithm::kShared ||
         IsOffered(rule.collective, rule.algorithm, query.size, query.ranks_per_host);
}

// But for the bytes.
bool IsFor(const SelectionRule& rule, const SelectionQuery& query) {
  return rule.collective == query.collective && query.size <= rule.ranks_max && !(rule.if_narrow && Widens(query)) &&
         !(rule.if_apart && query.ranks_per_host != 1) && IsAvailable(rule, query);
}

const SelectionRule* Find(const SelectionTable& table, const SelectionQuery& query, uint64_t bytes) {
  for (const SelectionRule& rule : table.rules()) {
    if (rule.bytes_min <= bytes && bytes <= rule.bytes_max && IsFor(rule, query)) return &rule;
  }
  return nullptr;
}

// How many of the largest messages make up the operand, or a block.
uint64_t Cuts(const SelectionRule& rule, const SelectionQuery& query) {
  if (HasBlocks(rule.collective)) return 1;
  if (rule.algorithm == Algorithm::kHierarchical) return static_cast<uint64_t>(query.ranks_per_host);
  const bool sliced = rule.algorithm == Algorithm::kDirect || rule.algorithm == Algorithm::kRing;
  return sliced ? static_cast<uint64_t>(query.size) : 1;
}

// Bytes of a segment, of the operand or of one block as Selection::segment_count counts.
uint64_t SegmentBytes(const SelectionRule& rule, const SelectionQuery& query) {
  const uint64_t cuts = Cuts(rule, query);
  // What a rank has on its way at once, in chunks.
  const auto n = static_cast<uint64_t>(rule.algorithm == Algorithm::kHierarchical ? query.ranks_per_host : query.size);
  const bool asked = rule.chunk_bytes != 0;
  const uint64_t chunk = asked ? rule.chunk_bytes : std::clamp(kSegmentBytes / n, kChunkBytesMin, kChunkBytes);
  if (rule.algorithm == Algorithm::kShared) return kAllBytes;
  switch (rule.collective) {
    case Collective::kAllReduce:
      return rule.algorithm == Algorithm::kHalving ? 4 * chunk : cuts * chunk;
    case Collective::kReduce:
    case Collective::kBroadcast:
      return cuts > 1 ? cuts * chunk : asked || rule.collective == Collective::kReduce ? chunk : kCopyChunkBytes;
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
  const SelectionRule* rule = Find(table, query, bytes);
  if (rule == nullptr) return {.algorithm = Algorithm::kDirect, .segment_count = 1, .reason = "nothing fits"};
  const uint64_t segment_count = std::max<uint64_t>(1, SegmentBytes(*rule, query) / ByteSize(query.type));
  const uint64_t largest = std::min(query.uneven ? segment_count : query.count, segment_count);
  return {.algorithm = rule->algorithm,
          .wide = MayBeWide(query.collective, rule->algorithm) && Widens(query),
          .ranks_per_host = rule->algorithm == Algorithm::kHierarchical ? query.ranks_per_host : 1,
          .segment_count = segment_count,
          .message_bytes = largest * ByteSize(query.type) / Cuts(*rule, query),
          .reason = rule->reason};
}

std::string DescribeSelection(const SelectionTable& table, int size, int ranks_per_host) {
  std::string text;
  for (int code = 0; code <= static_cast<int>(Collective::kAllToAll); ++code) {
    const SelectionQuery query = {
        .collective = static_cast<Collective>(code), .size = size, .ranks_per_host = ranks_per_host};
    absl::StrAppend(&text, text.empty() ? "" : "\n", Name(query.collective), " = ");
    uint64_t bytes = 0;
    while (const SelectionRule* rule = Find(table, query, bytes)) {
      absl::StrAppend(&text, bytes == 0 ? "" : "; ", Name(rule->algorithm));
      // Up to where this rule ends, or one before it begins.
      uint64_t last = rule->bytes_max;
      for (const SelectionRule& other : table.rules()) {
        if (&other >= rule || !IsFor(other, query)) continue;
        if (other.bytes_min > bytes) last = std::min(last, other.bytes_min - 1);
      }
      absl::StrAppend(&text,
                      last == std::numeric_limits<uint64_t>::max() ? "" : absl::StrCat(" up to ", last, " bytes"),
                      SegmentBytes(*rule, query) == kAllBytes
                          ? ""
                          : absl::StrCat(" in segments of up to ", SegmentBytes(*rule, query), " bytes"),
                      " (", rule->reason, ")");
      if (last == std::numeric_limits<uint64_t>::max()) break;
      bytes = last + 1;
    }
  }
  return text;
}

}  // namespace tutti
