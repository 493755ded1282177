#include "src/transport/shm/shared_reducer.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "src/base/status_macros.h"
#include "src/schedule/schedule.h"

namespace tutti {
namespace {

// What a rank claims at once; small enough that nobody waits long for the last one.
constexpr size_t kPieceBytes = size_t{128} << 10;
// What is reduced, and then copied, while it is in the first-level cache.
constexpr size_t kBlockBytes = size_t{4} << 10;
// All posts together, which every rank reads.
constexpr size_t kAllInlineBytes = size_t{16} << 10;
// Up to here the second synchronisation of a reduction in place costs more than the copies that it saves.
constexpr size_t kInlineBytesMin = size_t{1} << 10;
static_assert(kInlineBytesMin >= kPostBytes);

// A neighbour that is in the middle of a piece ends it within microseconds, if it runs.
constexpr absl::Duration kBusyPatience = absl::Milliseconds(100);

size_t InlineBytesMax(int count) { return std::max(kAllInlineBytes / static_cast<size_t>(count), kInlineBytesMin); }

}  // namespace

SharedReducer::SharedReducer(Neighbourhood& neighbourhood, const SegmentLayout& layout, BufferExchange& exchange,
                             absl::AnyInvocable<void()> pause)
    : neighbourhood_(neighbourhood),
      layout_(layout),
      exchange_(exchange),
      pause_(std::move(pause)),
      count_(neighbourhood.count()),
      self_(neighbourhood.self()),
      inline_bytes_max_(InlineBytesMax(count_)),
      operands_(static_cast<size_t>(count_)),
      slices_(static_cast<size_t>(count_)),
      sources_(static_cast<size_t>(count_)) {}

SharedReducer::~SharedReducer() {
  own().closed.store(1, std::memory_order_seq_cst);
  if (phase_ == Phase::kIdle || input_.id == 0 || output_.id == 0) return;
  const absl::Time deadline = absl::Now() + kBusyPatience;
  bool stuck = false;
  for (int index = 0; index < count_; ++index) {
    if (index == self_) continue;
    while (board(index).busy.load(std::memory_order_seq_cst) != 0 && absl::Now() < deadline) sched_yield();
    stuck |= board(index).busy.load(std::memory_order_acquire) != 0 && !neighbourhood_.HasClosed(index);
  }
  if (!stuck) return;
  // It has been stopped in the middle of a piece, and may go on at any time: let it write to memory that is nobody's.
  for (const uint64_t id : {input_.id, output_.id}) exchange_.Isolate(id);
}

void SharedReducer::WakeNeighbours() {
  FullFence();
  for (int index = 0; index < count_; ++index) {
    if (index == self_) continue;
    std::atomic<uint32_t>& asleep = board(index).asleep;
    if (asleep.load(std::memory_order_relaxed) != 0 && asleep.exchange(0) != 0) neighbourhood_.Ring(index);
  }
}

void SharedReducer::Begin(const SharedReduction& reduction) {
  reduction_ = reduction;
  ++epoch_;
  bytes_ = reduction.count * reduction.element_bytes;
  const bool fits = bytes_ <= inline_bytes_max_;
  is_either_ = fits && bytes_ > kInlineBytesMin;
  is_inline_ = fits && !(is_either_ && were_placed_);
  gathered_ = 0;
  input_ = output_ = {};
  Post& post = PostOf(self_);
  if (bytes_ > kInlineBytesMin) {
    post.place.input = exchange_.Share(reduction.input, bytes_);
    post.place.output =
        reduction.input == reduction.output ? post.place.input : exchange_.Share(reduction.output, bytes_);
  }
  if (is_inline_) {
    if (bytes_ > kPostBytes) places_[0] = area_.Take(bytes_);
    if (bytes_ > 0) std::memcpy(PostedOperand(self_), reduction.input, bytes_);
  } else {
    input_ = post.place.input;
    output_ = post.place.output;
    alignment_ = kLine / reduction.element_bytes;
    piece_ = std::max<uint64_t>(alignment_, kPieceBytes / reduction.element_bytes);
    SliceOf(self_).claimed.store(0, std::memory_order_relaxed);
    SliceOf(self_).done.store(0, std::memory_order_relaxed);
    round_elements_ = static_cast<uint64_t>(count_) * (layout_.part_bytes() / reduction.element_bytes);
    rounds_before_ += round_count_;
    round_count_ = 0;
    staged_ = reduced_ = copied_ = 0;
  }
  post.fingerprint = reduction.fingerprint;
  post.history = reduction.history;
  post.sequence = reduction.sequence;
  Pause();
  post.epoch.store(epoch_, std::memory_order_release);
  phase_ = Phase::kGathering;
  WakeNeighbours();
}

// Where all operands are in this process.
absl::Status SharedReducer::FindOperands() {
  for (int index = 0; index < count_; ++index) {
    Operands& operands = operands_[static_cast<size_t>(index)];
    if (index == self_) {
      operands = {.input = static_cast<const std::byte*>(reduction_.input),
                  .output = static_cast<std::byte*>(reduction_.output)};
      continue;
    }
    TUTTI_ASSIGN_OR_RETURN(operands.input, exchange_.Resolve(index, PostOf(index).place.input, bytes_));
    TUTTI_ASSIGN_OR_RETURN(operands.output, exchange_.Resolve(index, PostOf(index).place.output, bytes_));
  }
  return absl::OkStatus();
}

bool SharedReducer::Advance(MessageSink& sink) {
  switch (phase_) {
    case Phase::kIdle:
      return false;
    case Phase::kGathering:
      return Gather(sink);
    case Phase::kInPlace:
      for (int i = 0; i < count_; ++i) {
        if (ReducePiece((self_ + i) % count_)) return true;
      }
      if (!AllDone()) return false;
      End(sink);
      return true;
    case Phase::kStaged:
      if (reduced_ < staged_ && AllStaged()) {
        ReduceRound();
      } else if (copied_ < reduced_ && AllReduced()) {
        CopyResults();
        if (copied_ == round_count_) End(sink);
      } else {
        return StageMore();
      }
      return true;
  }
  return false;
}

bool SharedReducer::CanAdvance() const {
  switch (phase_) {
    case Phase::kIdle:
      return false;
    case Phase::kGathering:
      return HasPosted(gathered_);
    case Phase::kInPlace:
      for (int index = 0; index < count_; ++index) {
        if (SliceOf(index).claimed.load(std::memory_order_acquire) < slices_[static_cast<size_t>(index)].pieces) {
          return true;
        }
      }
      return AllDone();
    case Phase::kStaged:
      return (reduced_ < staged_ && AllStaged()) || (copied_ < reduced_ && AllReduced()) ||
             (staged_ < round_count_ && staged_ < copied_ + 2);
  }
  return false;
}

bool SharedReducer::WaitsFor(int index) const {
  switch (phase_) {
    case Phase::kIdle:
      return false;
    case Phase::kGathering:
      return !HasPosted(index);
    case Phase::kInPlace:
      return true;  // it may have claimed what is missing
    case Phase::kStaged:
      return board(index).staged.load(std::memory_order_acquire) < rounds_before_ + staged_ ||
             board(index).reduced.load(std::memory_order_acquire) < rounds_before_ + reduced_;
  }
  return false;
}

bool SharedReducer::LookForOthers(MessageSink& sink) {
  if (phase_ != Phase::kGathering) return false;
  for (int index = 0; index < count_; ++index) {
    if (HasPosted(index) || board(index).by_messages.load(std::memory_order_acquire) < reduction_.sequence) continue;
    phase_ = Phase::kIdle;
    sink.Disagrees(neighbourhood_.rank(index), /*before=*/false);
    return true;
  }
  return false;
}

bool SharedReducer::Gather(MessageSink& sink) {
  for (; gathered_ < count_; ++gathered_) {
    if (!HasPosted(gathered_)) return false;
    const Post& post = PostOf(gathered_);
    const bool here = post.fingerprint != reduction_.fingerprint || post.sequence != reduction_.sequence;
    if (here || post.history != reduction_.history) {
      phase_ = Phase::kIdle;
      sink.Disagrees(neighbourhood_.rank(gathered_), /*before=*/!here);
      return true;
    }
  }
  Pause();
  const bool placed = bytes_ > kInlineBytesMin && ArePlaced();
  if (is_either_) were_placed_ = placed;
  if (is_inline_) {
    ReduceInline();
    End(sink);
    return true;
  }
  if (placed) {
    CutSlices();
    // Others may have done it all before this rank came to look; then their buffers may have ended, and nobody needs
    // them.
    if (absl::Status status = FindOperands(); !status.ok() && !AllDone()) {
      sink.PeerLost(neighbourhood_.rank(self_), std::move(status));
      return true;
    }
    phase_ = Phase::kInPlace;
  } else {
    input_ = output_ = {};
    round_count_ = (reduction_.count + round_elements_ - 1) / round_elements_;
    phase_ = Phase::kStaged;
  }
  return true;
}

bool SharedReducer::ArePlaced() const {
  for (int index = 0; index < count_; ++index) {
    const Post& post = PostOf(index);
    if (post.place.input.id == 0 || post.place.output.id == 0) return false;
  }
  return true;
}

std::byte* SharedReducer::PostedOperand(int index) const {
  return bytes_ <= kPostBytes ? PostOf(index).payload : Area(index, places_[0]);
}

void SharedReducer::ReduceInline() {
  if (reduction_.count == 0) return;
  for (int index = 0; index < count_; ++index) sources_[static_cast<size_t>(index)] = PostedOperand(index);
  reduction_.reduce(reduction_.output, sources_.data(), sources_.size(), reduction_.count, reduction_.divisor);
}

void SharedReducer::End(MessageSink& sink) {
  phase_ = Phase::kIdle;
  sink.Reduced();
}

uint64_t SharedReducer::SliceBegin(int index, uint64_t elements) const {
  return SliceStart(static_cast<uint64_t>(index), static_cast<uint64_t>(count_), elements, alignment_);
}

void SharedReducer::CutSlices() {
  for (int index = 0; index < count_; ++index) {
    const uint64_t begin = SliceBegin(index, reduction_.count);
    const uint64_t end = SliceBegin(index + 1, reduction_.count);
    slices_[static_cast<size_t>(index)] = {.begin = begin, .end = end, .pieces = (end - begin + piece_ - 1) / piece_};
  }
}

// False if there is none left.
bool SharedReducer::ReducePiece(int owner) {
  SliceState& state = SliceOf(owner);
  const Slice& slice = slices_[static_cast<size_t>(owner)];
  if (state.claimed.load(std::memory_order_relaxed) >= slice.pieces) return false;
  const uint64_t piece = state.claimed.fetch_add(1, std::memory_order_relaxed);
  if (piece >= slice.pieces) return false;
  own().busy.store(1, std::memory_order_seq_cst);
  FullFence();
  Pause();
  bool closed = false;
  for (int index = 0; index < count_; ++index) closed |= board(index).closed.load(std::memory_order_acquire) != 0;
  if (!closed) {
    const uint64_t begin = slice.begin + piece * piece_;
    ReduceRange(begin, std::min(begin + piece_, slice.end));
  }
  own().busy.store(0, std::memory_order_release);
  if (closed) return false;
  Pause();
  if (state.done.fetch_add(1, std::memory_order_acq_rel) + 1 == slice.pieces) WakeNeighbours();
  return true;
}

void SharedReducer::ReduceRange(uint64_t begin, uint64_t end) {
  const size_t element = reduction_.element_bytes;
  const uint64_t block = kBlockBytes / element;
  for (uint64_t at = begin; at < end; at += block) {
    const uint64_t elements = std::min(block, end - at);
    const size_t offset = at * element;
    for (size_t i = 0; i < sources_.size(); ++i) sources_[i] = operands_[i].input + offset;
    std::byte* const result = operands_[static_cast<size_t>(self_)].output + offset;
    reduction_.reduce(result, sources_.data(), sources_.size(), elements, reduction_.divisor);
    for (int index = 0; index < count_; ++index) {
      if (index != self_)
        std::memcpy(operands_[static_cast<size_t>(index)].output + offset, result, elements * element);
    }
  }
}

bool SharedReducer::AllDone() const {
  for (int index = 0; index < count_; ++index) {
    if (SliceOf(index).done.load(std::memory_order_acquire) < slices_[static_cast<size_t>(index)].pieces) return false;
  }
  return true;
}

// The elements of a round that a rank reduces. The first rank's part is the largest.
SharedReducer::Part SharedReducer::PartOf(uint64_t round, int index) const {
  const uint64_t first = round * round_elements_;
  const uint64_t elements = std::min(round_elements_, reduction_.count - first);
  const uint64_t begin = SliceBegin(index, elements);
  return {.begin = first + begin, .count = SliceBegin(index + 1, elements) - begin};
}

std::byte* SharedReducer::InputFor(uint64_t round, int from, int to) const {
  const auto place = static_cast<size_t>(to < from ? to : to - 1);  // none for itself
  return Area(from, places_[round % 2]) + place * PartBytes(round);
}

std::byte* SharedReducer::ResultOf(uint64_t round, int index) const {
  return Area(index, places_[round % 2]) + static_cast<size_t>(count_ - 1) * PartBytes(round);
}

bool SharedReducer::StageMore() {
  if (staged_ == round_count_ || staged_ == copied_ + 2) return false;
  places_[staged_ % 2] = area_.Take(static_cast<size_t>(count_) * PartBytes(staged_));
  for (int index = 0; index < count_; ++index) {
    const Part part = PartOf(staged_, index);
    if (index == self_ || part.count == 0) continue;
    std::memcpy(InputFor(staged_, self_, index),
                static_cast<const std::byte*>(reduction_.input) + part.begin * reduction_.element_bytes,
                part.count * reduction_.element_bytes);
  }
  ++staged_;
  Pause();
  own().staged.store(rounds_before_ + staged_, std::memory_order_release);
  WakeNeighbours();
  return true;
}

bool SharedReducer::AllStaged() const {
  for (int index = 0; index < count_; ++index) {
    if (board(index).staged.load(std::memory_order_acquire) <= rounds_before_ + reduced_) return false;
  }
  return true;
}

bool SharedReducer::AllReduced() const {
  for (int index = 0; index < count_; ++index) {
    if (board(index).reduced.load(std::memory_order_acquire) <= rounds_before_ + copied_) return false;
  }
  return true;
}

void SharedReducer::ReduceRound() {
  const size_t element = reduction_.element_bytes;
  const uint64_t block = kBlockBytes / element;
  const Part part = PartOf(reduced_, self_);
  for (uint64_t at = 0; at < part.count; at += block) {
    const uint64_t elements = std::min(block, part.count - at);
    const size_t offset = (part.begin + at) * element;
    for (int index = 0; index < count_; ++index) {
      sources_[static_cast<size_t>(index)] = index == self_ ? static_cast<const std::byte*>(reduction_.input) + offset
                                                            : InputFor(reduced_, index, self_) + at * element;
    }
    std::byte* const result = static_cast<std::byte*>(reduction_.output) + offset;
    reduction_.reduce(result, sources_.data(), sources_.size(), elements, reduction_.divisor);
    std::memcpy(ResultOf(reduced_, self_) + at * element, result, elements * element);
  }
  ++reduced_;
  Pause();
  own().reduced.store(rounds_before_ + reduced_, std::memory_order_release);
  WakeNeighbours();
}

void SharedReducer::CopyResults() {
  for (int index = 0; index < count_; ++index) {
    const Part part = PartOf(copied_, index);
    if (index == self_ || part.count == 0) continue;
    std::memcpy(static_cast<std::byte*>(reduction_.output) + part.begin * reduction_.element_bytes,
                ResultOf(copied_, index), part.count * reduction_.element_bytes);
  }
  ++copied_;
}

}  // namespace tutti
