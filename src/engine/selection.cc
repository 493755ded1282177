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
constexpr uint64_t kChunkBytesMin = 16 << 10;
// Scratch of one segment stays below this, whatever the number of ranks.
constexpr uint64_t kSegmentBytes = 8 << 20;
// A message that nobody reduces.
constexpr uint64_t kCopyChunkBytes = 1 << 20;

// Gathering all inputs costs (n - 1) * bytes on the wire but is one step deep at n = 2, log2 n in general.
constexpr uint64_t kGatherBytesPair = 128 << 10;  // n = 2, where it moves no more bytes than any other algorithm
constexpr uint64_t kGatherBytesTotal = 16 << 10;  // n > 2: bytes * n up to this
// Direct exchange opens a connection to every rank.
constexpr int kDirectSize = 64;

uint64_t GatherBytesMax(int size) {
  return size == 2 ? kGatherBytesPair : kGatherBytesTotal / static_cast<uint64_t>(size);
}

bool HasAlgorithm(Collective collective, Algorithm algorithm) {
  const auto algorithms = AlgorithmsOf(collective);
  return std::find(algorithms.begin(), algorithms.end(), algorithm) != algorithms.end();
}

Selection ChooseAlgorithm(Collective collective, int size, uint64_t bytes) {
  switch (collective) {
    case Collective::kAllReduce:
      if (size <= kDirectSize && bytes <= GatherBytesMax(size)) {
        return {.algorithm = Algorithm::kGather, .reason = "small: fewest steps"};
      }
      if (size <= kDirectSize) return {.algorithm = Algorithm::kDirect, .reason = "fewest bytes, two steps"};
      return {.algorithm = bytes <= 64 << 10 ? Algorithm::kDoubling : Algorithm::kHalving,
              .reason = "many ranks: logarithmic number of connections"};
    case Collective::kReduceScatter:
      if (size <= kDirectSize) return {.algorithm = Algorithm::kDirect, .reason = "fewest bytes, one step"};
      return {.algorithm = Algorithm::kHalving, .reason = "many ranks: logarithmic number of connections"};
    case Collective::kAllGather:
      if (size <= kDirectSize && bytes > 16 << 10) {
        return {.algorithm = Algorithm::kDirect, .reason = "large: one step"};
      }
      return {.algorithm = Algorithm::kBruck, .reason = "small or many ranks: logarithmic number of steps"};
    case Collective::kBroadcast:
      return {.algorithm = Algorithm::kTree, .reason = "the only one"};
    case Collective::kBarrier:
      return {.algorithm = Algorithm::kBruck, .reason = "the only one"};
    case Collective::kSend:
    case Collective::kRecv:
      return {.algorithm = Algorithm::kPair, .reason = "the only one"};
  }
  return {};
}

// Bytes of a segment, of the whole operand or of one block as Selection::segment_count counts.
uint64_t SegmentBytes(Collective collective, Algorithm algorithm, int size, uint64_t chunk_bytes) {
  const auto n = static_cast<uint64_t>(size);
  const uint64_t chunk = chunk_bytes != 0 ? chunk_bytes : std::clamp(kSegmentBytes / n, kChunkBytesMin, kChunkBytes);
  switch (collective) {
    case Collective::kAllReduce:
      return algorithm == Algorithm::kDirect ? n * chunk : algorithm == Algorithm::kHalving ? 4 * chunk : chunk;
    case Collective::kReduceScatter:
      return chunk;
    default:
      return chunk_bytes != 0 ? chunk_bytes : kCopyChunkBytes;
  }
}

}  // namespace

Selection Select(Collective collective, int size, uint64_t count, DataType type, ReduceOp op,
                 const SelectionOverride& override) {
  const uint64_t bytes = count * ByteSize(type);
  Selection selection = ChooseAlgorithm(collective, size, bytes);
  if (override.has_algorithm && HasAlgorithm(collective, override.algorithm)) {
    selection.algorithm = override.algorithm;
    selection.reason = "asked for";
  }
  const bool butterfly = selection.algorithm == Algorithm::kDoubling || selection.algorithm == Algorithm::kHalving;
  selection.wide = butterfly && AccumulatorType(type, op) != type;
  selection.segment_count =
      std::max<uint64_t>(1, SegmentBytes(collective, selection.algorithm, size, override.chunk_bytes) / ByteSize(type));
  return selection;
}

std::string DescribeSelection(int size) {
  return absl::StrCat("all-reduce = gather up to ", GatherBytesMax(size), " bytes, then direct in chunks of ",
                      std::clamp(kSegmentBytes / static_cast<uint64_t>(size), kChunkBytesMin, kChunkBytes),
                      " bytes (up to ", kDirectSize, " ranks; above, doubling up to 65536 bytes, then halving)");
}

}  // namespace tutti
