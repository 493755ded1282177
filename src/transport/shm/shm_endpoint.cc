#include "src/transport/shm/shm_endpoint.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "src/base/status_macros.h"

namespace tutti {
namespace {

// How long a sleep may last until this rank looks whether its neighbours are still there.
constexpr absl::Duration kLookForClosed = absl::Milliseconds(100);
// The same for a rank that does not sleep: idle Polls.
constexpr uint32_t kPollsPerLook = 4096;

}  // namespace

ShmEndpoint::ShmEndpoint(Neighbourhood neighbourhood, const SegmentLayout& layout, ShmOptions options,
                         std::unique_ptr<Endpoint> far)
    : neighbourhood_(std::move(neighbourhood)),
      layout_(layout),
      all_near_(neighbourhood_.count() == far->size()),
      near_index_(static_cast<size_t>(far->size()), -1),
      near_(static_cast<size_t>(neighbourhood_.count())),
      exchange_(neighbourhood_, std::move(options.buffers)),
      reducer_(neighbourhood_, layout_, exchange_, std::move(options.pause)),
      far_(std::move(far)) {
  std::byte* const own = neighbourhood_.segment(neighbourhood_.self());
  for (int index = 0; index < neighbourhood_.count(); ++index) {
    near_index_[static_cast<size_t>(neighbourhood_.rank(index))] = index;
    sockets_.push_back({.fd = neighbourhood_.socket(index), .events = 0, .revents = 0});
    if (index == neighbourhood_.self()) continue;
    std::byte* const theirs = neighbourhood_.segment(index);
    for (int i = 0; i < kChannelCount; ++i) {
      const auto channel = static_cast<Channel>(i);
      near(index).streams.emplace_back(
          neighbourhood_.rank(index), index, channel,
          RingMemory{.data = layout_.ring(own, index, channel),
                     .capacity = layout_.ring_bytes(),
                     .written = &layout_.written_to(own, index, channel),
                     .read = &layout_.read_to(theirs, neighbourhood_.self(), channel)},
          RingMemory{.data = layout_.ring(theirs, neighbourhood_.self(), channel),
                     .capacity = layout_.ring_bytes(),
                     .written = &layout_.written_to(theirs, neighbourhood_.self(), channel),
                     .read = &layout_.read_to(own, index, channel)},
          exchange_);
    }
  }
}

void ShmEndpoint::Send(int peer, Channel channel, const MessageTag& tag, const void* data, uint64_t bytes,
                       uint64_t cookie) {
  assert(peer >= 0 && peer < size() && peer != rank());
  if (!IsNear(peer)) return far_->Send(peer, channel, tag, data, bytes, cookie);
  Stream& stream = StreamTo(peer, channel);
  Activate(stream);
  stream.Push(tag, data, bytes, cookie);
}

void ShmEndpoint::Expect(int peer, Channel channel, int64_t count) {
  assert(peer >= 0 && peer < size() && peer != rank());
  if (!IsNear(peer)) return far_->Expect(peer, channel, count);
  Stream& stream = StreamTo(peer, channel);
  Activate(stream);
  stream.Expect(count);
}

void ShmEndpoint::Activate(Stream& stream) {
  if (!stream.in_use() && std::find(active_.begin(), active_.end(), &stream) == active_.end()) {
    active_.push_back(&stream);
  }
}

bool ShmEndpoint::Poll(MessageSink& sink) {
  bool moved = reducer_.active() && reducer_.Advance(sink);
  if (!active_.empty()) moved |= MoveStreams(sink);
  if (!all_near_) moved |= far_->Poll(sink);
  if (moved) return true;
  if (++idle_polls_ % kPollsPerLook == 0) LookAround();
  if (std::exchange(looked_around_, false) && reducer_.LookForOthers(sink)) return true;
  return any_closed_ && ReportLost(sink);
}

bool ShmEndpoint::MoveStreams(MessageSink& sink) {
  bool moved = false;
  // By index: the sink may activate streams.
  for (size_t i = 0; i < active_.size(); ++i) {
    if ((active_[i]->queued() || active_[i]->lent()) && !HasLeft(active_[i]->peer())) moved |= active_[i]->Send(sink);
  }
  if (moved) reducer_.WakeNeighbours();
  bool received = false;
  for (size_t i = 0; i < active_.size(); ++i) {
    Stream& stream = *active_[i];
    received |= stream.Receive(sink);
    if (stream.broken()) any_closed_ = true;
  }
  if (received) reducer_.WakeNeighbours();
  active_.erase(std::remove_if(active_.begin(), active_.end(), [](const Stream* stream) { return !stream->in_use(); }),
                active_.end());
  return moved || received;
}

// Whoever leaves in order says so; what is sent to it afterwards would never be read.
bool ShmEndpoint::HasLeft(int peer) {
  const int index = near_index_[static_cast<size_t>(peer)];
  if (near(index).presence != Presence::kHere) return true;
  if (layout_.board(neighbourhood_.segment(index)).closed.load(std::memory_order_acquire) == 0) return false;
  near(index).presence = Presence::kClosed;
  any_closed_ = true;
  return true;
}

void ShmEndpoint::Sleep(absl::Time deadline) {
  std::atomic<uint32_t>& asleep = own_board().asleep;
  asleep.store(1, std::memory_order_seq_cst);
  FullFence();
  if (!HasWork()) far_->Sleep(std::min(deadline, absl::Now() + kLookForClosed));
  asleep.store(0, std::memory_order_relaxed);
  LookAround();
}

bool ShmEndpoint::HasWork() {
  return (any_closed_ && std::any_of(near_.begin(), near_.end(),
                                     [&](Near& each) {
                                       return each.presence == Presence::kClosed &&
                                              NeedsMore(static_cast<int>(&each - near_.data()));
                                     })) ||
         reducer_.CanAdvance() ||
         std::any_of(active_.begin(), active_.end(), [](Stream* stream) { return stream->CanMove(); });
}

// For what the memory that Poll looks at does not show.
void ShmEndpoint::LookAround() {
  looked_around_ = true;
  if (::poll(sockets_.data(), sockets_.size(), 0) <= 0) return;
  for (int index = 0; index < neighbourhood_.count(); ++index) {
    pollfd& socket = sockets_[static_cast<size_t>(index)];
    if ((socket.revents & (POLLHUP | POLLERR)) == 0) continue;
    socket.fd = -1;  // looked at no more
    near(index).presence = Presence::kClosed;
    any_closed_ = true;
  }
}

// Whether anything is wanted from the neighbour, or waits to be taken by it.
bool ShmEndpoint::NeedsMore(int index) {
  return std::any_of(near(index).streams.begin(), near(index).streams.end(),
                     [](const Stream& stream) { return stream.in_use(); }) ||
         reducer_.WaitsFor(index);
}

// Nothing has moved since the neighbours were found to have closed: what they had done before was seen.
bool ShmEndpoint::ReportLost(MessageSink& sink) {
  bool reported = false;
  for (int index = 0; index < neighbourhood_.count(); ++index) {
    if (index == neighbourhood_.self() || near(index).presence == Presence::kLost) continue;
    const bool broken = std::any_of(near(index).streams.begin(), near(index).streams.end(),
                                    [](const Stream& stream) { return stream.broken(); });
    if (!broken && (near(index).presence == Presence::kHere || !NeedsMore(index))) continue;
    near(index).presence = Presence::kLost;
    const int peer = neighbourhood_.rank(index);
    sink.PeerLost(peer, absl::UnavailableError(absl::StrCat(
                            "rank ", rank(), " lost rank ", peer, ", with which it shares memory: ",
                            broken ? "what it wrote is no Tutti message" : "its process ended, or left the group")));
    reported = true;
  }
  return reported;
}

std::string ShmEndpoint::Describe() const {
  const int count = neighbourhood_.count();
  return absl::StrCat("transport = shared memory with ", count - 1, " of ", size() - 1,
                      " other ranks (they attached it)\nshared memory = ", layout_.bytes(),
                      " bytes per rank, rings of ", layout_.ring_bytes(), " bytes, reductions ",
                      all_near_ ? "in place for buffers of ProcessGroup::Allocate" : "by messages", "\n",
                      far_->Describe());
}

absl::StatusOr<std::unique_ptr<Endpoint>> MakeShmEndpoint(ShmOptions options, std::unique_ptr<Endpoint>& far) {
  const SegmentLayout layout(static_cast<int>(options.neighbours.size()));
  NeighbourhoodOptions meeting;
  meeting.neighbours = options.neighbours;
  meeting.rank = far->rank();
  meeting.group = options.group;
  meeting.listener = std::move(options.listener);
  meeting.doorbell = std::move(options.wake);
  meeting.segment_bytes = layout.bytes();
  meeting.deadline = options.deadline;
  TUTTI_ASSIGN_OR_RETURN(Neighbourhood neighbourhood, Neighbourhood::Meet(std::move(meeting)));
  return std::make_unique<ShmEndpoint>(std::move(neighbourhood), layout, std::move(options), std::move(far));
}

}  // namespace tutti
