// ShmEndpoint: see shm_transport.h.
//
// Sleep and wake. A rank about to sleep sets `asleep` on its board, and then looks once more whether anything can move;
// whoever has published something looks at `asleep` afterwards, and rings the doorbell if it was set. Both are fenced,
// so at least one of the two sees the other. Whether a neighbour has ended is looked for when a sleep ends.

#ifndef TUTTI_SRC_TRANSPORT_SHM_SHM_ENDPOINT_H_
#define TUTTI_SRC_TRANSPORT_SHM_SHM_ENDPOINT_H_

#include <poll.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/transport/shm/shared_reducer.h"
#include "src/transport/shm/shm_transport.h"
#include "src/transport/shm/stream.h"

namespace tutti {

class ShmEndpoint final : public Endpoint, private SharedMemory {
 public:
  ShmEndpoint(Neighbourhood neighbourhood, const SegmentLayout& layout, ShmOptions options,
              std::unique_ptr<Endpoint> far);

  int rank() const override { return far_->rank(); }
  int size() const override { return far_->size(); }
  void Send(int peer, Channel channel, const MessageTag& tag, const void* data, uint64_t bytes,
            uint64_t cookie) override;
  void Expect(int peer, Channel channel, int64_t count) override;
  bool Poll(MessageSink& sink) override;
  void Sleep(absl::Time deadline) override;
  void Wake() override { far_->Wake(); }
  Striping striping() const override { return far_->striping(); }
  SharedMemory* shared_memory() override { return all_near_ ? this : nullptr; }
  std::string Describe() const override;

 private:
  enum class Presence : uint8_t { kHere, kClosed, kLost };
  struct Near {
    std::vector<Stream> streams;  // by channel; none to itself
    Presence presence = Presence::kHere;
  };

  void BeginReduction(const SharedReduction& reduction) override { reducer_.Begin(reduction); }
  void BeginOther(uint32_t sequence) override { own_board().by_messages.store(sequence, std::memory_order_release); }

  Board& own_board() const { return layout_.board(neighbourhood_.segment(neighbourhood_.self())); }

  bool IsNear(int peer) const { return near_index_[static_cast<size_t>(peer)] >= 0; }
  Near& near(int index) { return near_[static_cast<size_t>(index)]; }
  Stream& StreamTo(int peer, Channel channel) {
    return near(near_index_[static_cast<size_t>(peer)]).streams[static_cast<size_t>(channel)];
  }
  void Activate(Stream& stream);
  bool MoveStreams(MessageSink& sink);
  bool HasLeft(int peer);
  bool HasWork();
  void LookAround();
  bool ReportLost(MessageSink& sink);
  bool NeedsMore(int index);

  Neighbourhood neighbourhood_;
  const SegmentLayout layout_;
  const bool all_near_;
  std::vector<int> near_index_;  // by rank; -1: far
  std::vector<Near> near_;
  std::vector<Stream*> active_;  // that send or expect something
  std::vector<pollfd> sockets_;  // of the neighbours; -1: its own, or closed
  bool looked_around_ = false;
  bool any_closed_ = false;
  uint32_t idle_polls_ = 0;
  BufferExchange exchange_;
  SharedReducer reducer_;
  std::unique_ptr<Endpoint> far_;
};

}  // namespace tutti

#endif  // TUTTI_SRC_TRANSPORT_SHM_SHM_ENDPOINT_H_
