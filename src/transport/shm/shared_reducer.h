// SharedReducer: all-reduce among ranks that can address each other's memory.
//
// Three ways, which all evaluate the canonical tree with the kernel of n inputs, and so give the same bits:
//
//   inline    small operands travel with the posts; every rank reduces all of them. One synchronisation. Of those that
//             are not tiny, posts also say where they lie: if all of one reduction did so, the next is in place.
//   in place  all operands lie in buffers of the library. Once all ranks have posted where, each slice is reduced from
//             all inputs, and written to all outputs. Slices are cut into pieces that any rank may claim: each rank
//             begins with its own slice and then helps the others, so a rank that waits works for one that computes.
//             Two synchronisations, whatever the size.
//   staged    otherwise, in rounds: each rank copies what is for others into its area, reduces its part from all
//             areas, puts the result into its area, and copies the results of the others. Two rounds are under way at a
//             time.
//
// Invariants:
//   1. A rank posts epoch e + 1 only after its reduction e has ended, and no reduction ends before all have posted it.
//      So when a rank posts e + 2, nobody reads post e, which it overwrites, or counts in the slices of e.
//   2. `claimed` and `done` of epoch e are reset by their owner before it posts e, and used after its post was seen.
//   3. Bytes of an area are written again after four other takings at the earliest (AreaCursor), when nobody needs what
//      was there: a rank stages round k + 2 only when it has copied the results of round k, for which all have read its
//      inputs of it; and who stages round k + 2 has copied all results of round k. The same holds across reductions:
//      the first two rounds of one may be staged while others still copy the last two of the one before.
//   4. Nobody writes to another rank's memory while its own `busy` is 0, nor begins to after that one's `closed`.
// Each release store (post, done, staged, reduced) is paired with the acquire load of whoever waits for it.
//
// Not thread-safe.

#ifndef TUTTI_SRC_TRANSPORT_SHM_SHARED_REDUCER_H_
#define TUTTI_SRC_TRANSPORT_SHM_SHARED_REDUCER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "src/transport/shm/board.h"
#include "src/transport/shm/buffer_exchange.h"
#include "src/transport/shm/neighbourhood.h"
#include "src/transport/shm/segment_layout.h"
#include "src/transport/transport.h"

namespace tutti {

class SharedReducer {
 public:
  // `pause`, for tests, is called between the steps of the protocol; may be null.
  SharedReducer(Neighbourhood& neighbourhood, const SegmentLayout& layout, BufferExchange& exchange,
                absl::AnyInvocable<void()> pause);
  // Says that this rank leaves. From when it returns on, no neighbour writes to its memory.
  ~SharedReducer();

  // None is under way.
  void Begin(const SharedReduction& reduction);
  bool active() const { return phase_ != Phase::kIdle; }

  // Does what can be done without waiting, a piece at a time. True if anything was done.
  bool Advance(MessageSink& sink);
  // Whether a neighbour has come to a collective by messages instead; then the reduction ends here.
  bool LookForOthers(MessageSink& sink);
  // Whether Advance would do something.
  bool CanAdvance() const;
  // The neighbour has closed its socket: whether the reduction cannot end without it.
  bool WaitsFor(int index) const;

  // Wakes every neighbour that sleeps.
  void WakeNeighbours();

 private:
  enum class Phase : uint8_t { kIdle, kGathering, kInPlace, kStaged };
  // A neighbour's operands, where this process has them.
  struct Operands {
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
  };

  Board& board(int index) const { return layout_.board(neighbourhood_.segment(index)); }
  Board& own() const { return board(self_); }
  Post& PostOf(int index) const { return board(index).posts[epoch_ % 2]; }
  SliceState& SliceOf(int index) const { return board(index).slices[epoch_ % 2]; }
  bool HasPosted(int index) const { return PostOf(index).epoch.load(std::memory_order_acquire) >= epoch_; }
  void Pause() {
    if (pause_ != nullptr) pause_();
  }

  absl::Status FindOperands();

  bool Gather(MessageSink& sink);
  bool ArePlaced() const;
  std::byte* PostedOperand(int index) const;
  void ReduceInline();
  void End(MessageSink& sink);

  uint64_t SliceBegin(int index, uint64_t elements) const;
  void CutSlices();
  bool ReducePiece(int owner);
  void ReduceRange(uint64_t begin, uint64_t end);
  bool AllDone() const;

  bool StageMore();
  bool AllStaged() const;
  bool AllReduced() const;
  void ReduceRound();
  void CopyResults();
  struct Part {
    uint64_t begin = 0;  // elements
    uint64_t count = 0;
  };
  Part PartOf(uint64_t round, int index) const;
  std::byte* Area(int index, size_t offset) const { return layout_.area(neighbourhood_.segment(index)) + offset; }
  // Of a round under way: what `from` has brought for `to`, and what a rank has made of its part.
  std::byte* InputFor(uint64_t round, int from, int to) const;
  std::byte* ResultOf(uint64_t round, int index) const;
  size_t PartBytes(uint64_t round) const { return PartOf(round, 0).count * reduction_.element_bytes; }

  Neighbourhood& neighbourhood_;
  const SegmentLayout layout_;
  BufferExchange& exchange_;
  absl::AnyInvocable<void()> pause_;
  const int count_;
  const int self_;
  const size_t inline_bytes_max_;

  Phase phase_ = Phase::kIdle;
  SharedReduction reduction_;
  uint64_t epoch_ = 0;
  size_t bytes_ = 0;        // of the operand
  uint64_t alignment_ = 1;  // elements in a line
  bool is_inline_ = false;
  bool is_either_ = false;    // small, but not tiny
  bool were_placed_ = false;  // all operands of the latest of these lay in buffers of the library; alike on all ranks
  SharedPlace input_ = {}, output_ = {};  // this rank's
  int gathered_ = 0;                      // neighbours whose posts were seen

  struct Slice {
    uint64_t begin = 0, end = 0;  // elements
    uint64_t pieces = 0;
  };
  std::vector<Operands> operands_;    // in place; by neighbour
  std::vector<Slice> slices_;         // likewise
  std::vector<const void*> sources_;  // of the kernel at hand
  uint64_t piece_ = 0;                // elements

  AreaCursor area_;
  // Where the operand that is posted lies, or the rounds under way, by number.
  size_t places_[2] = {};
  uint64_t rounds_before_ = 0;  // in earlier reductions
  uint64_t round_count_ = 0;
  uint64_t round_elements_ = 0;
  uint64_t staged_ = 0, reduced_ = 0, copied_ = 0;  // rounds of this reduction
};

}  // namespace tutti

#endif  // TUTTI_SRC_TRANSPORT_SHM_SHARED_REDUCER_H_
