#include "src/reduce/loops.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tutti {
namespace {

constexpr size_t kMostVectorBytes = 64;

// A part of a result in accumulators. One per level of the tree is alive, so that all of them stay in the first-level
// cache.
constexpr size_t kBlockBytes = 4096;
struct Block {
  alignas(kMostVectorBytes) char bytes[kBlockBytes];
};

struct Format {
  size_t in_bytes;
  size_t out_bytes;
  size_t lanes;
};

// The elements from `first` on of up to kMostSources sources; dst is already at `first`. What fills no vector is
// reduced in one that is padded.
void RunLoop(Loop loop, Format format, void* dst, const void* const* sources, size_t source_count, size_t first,
             size_t count, double divisor) {
  char* to = static_cast<char*>(dst);
  const char* from[kMostSources] = {};
  for (size_t s = 0; s < source_count; ++s) from[s] = static_cast<const char*>(sources[s]) + first * format.in_bytes;
  const size_t vectors = count / format.lanes;
  if (vectors != 0) loop(to, from, vectors, divisor);
  const size_t done = vectors * format.lanes;
  if (done == count) return;

  char padded[kMostSources][kMostVectorBytes];
  for (size_t s = 0; s < source_count; ++s) {
    std::memset(padded[s], 0, kMostVectorBytes);
    std::memcpy(padded[s], from[s] + done * format.in_bytes, (count - done) * format.in_bytes);
    from[s] = padded[s];
  }
  char result[kMostVectorBytes];
  loop(result, from, 1, divisor);
  std::memcpy(to + done * format.out_bytes, result, (count - done) * format.out_bytes);
}

// The tree for the elements [first, first + count) of all sources: its lower levels in registers, the others through
// blocks.
class BlockTree {
 public:
  BlockTree(const Loops& loops, const void* const* sources, size_t source_count, size_t first, size_t count)
      : loops_(loops),
        sources_(sources),
        power_(std::bit_floor(source_count)),
        paired_(source_count - power_),
        first_(first),
        count_(count) {}

  // At least two sources.
  void Write(void* dst, Loop last, double divisor) const {
    Block left, right;
    Accumulate(&left, 0, power_ / 2);
    Accumulate(&right, power_ / 2, power_ / 2);
    Combine(dst, left, right, last, loops_.out_bytes, divisor);
  }

 private:
  // Of the 2^k operands of the balanced tree those from `begin` on. The first paired_ operands are two sources each.
  void Accumulate(Block* result, size_t begin, size_t operands) const {
    const bool pairs = begin + operands <= paired_;
    const bool singles = begin >= paired_;
    const size_t leaves = pairs ? 2 * operands : operands;
    if ((pairs || singles) && leaves <= kMostSources) {
      const Format format = {loops_.in_bytes, loops_.accumulator_bytes, loops_.lanes};
      const void* const* leaf = sources_ + (pairs ? 2 * begin : begin + paired_);
      RunLoop(loops_.leaves.of[leaves], format, result, leaf, leaves, first_, count_, 1);
      return;
    }
    Block right;
    Accumulate(result, begin, operands / 2);
    Accumulate(&right, begin + operands / 2, operands / 2);
    Combine(result, *result, right, loops_.combine, loops_.accumulator_bytes, 1);
  }

  void Combine(void* dst, const Block& left, const Block& right, Loop loop, size_t out_bytes, double divisor) const {
    const void* const halves[] = {&left, &right};
    RunLoop(loop, {loops_.accumulator_bytes, out_bytes, loops_.lanes}, dst, halves, 2, 0, count_, divisor);
  }

  const Loops& loops_;
  const void* const* const sources_;
  const size_t power_;
  const size_t paired_;
  const size_t first_;
  const size_t count_;
};

}  // namespace

void Evaluate(const Loops& loops, void* dst, const void* const* sources, size_t source_count, size_t count,
              double divisor) {
  const bool divided = divisor != 1 && loops.divided.of[1] != nullptr;
  if (source_count == 1 && loops.copies && !divided) {
    if (dst != sources[0] && count != 0) std::memcpy(dst, sources[0], count * loops.in_bytes);
    return;
  }
  const LoopTable& table = divided ? loops.divided : loops.plain;
  if (source_count <= kMostSources && table.of[source_count] != nullptr) {
    const Format format = {loops.in_bytes, loops.out_bytes, loops.lanes};
    RunLoop(table.of[source_count], format, dst, sources, source_count, 0, count, divisor);
    return;
  }
  const size_t block = kBlockBytes / loops.accumulator_bytes;
  for (size_t first = 0; first < count; first += block) {
    const BlockTree tree(loops, sources, source_count, first, std::min(block, count - first));
    tree.Write(static_cast<char*>(dst) + first * loops.out_bytes, divided ? loops.last_divided : loops.last, divisor);
  }
}

}  // namespace tutti
