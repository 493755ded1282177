// TcpEndpoint: see tcp_transport.h.
//
// Readiness. Sockets are watched edge-triggered. The flags of a link say what the kernel may still have for it; they
// are set by edges and cleared only when a call showed that the socket is empty or full. With few active links Poll
// asks the sockets themselves and leaves the edges in the EventSet.
// Invariant: a link that can be read or written has its flag set, or an edge waiting in the EventSet. So Sleep loses
// nothing: it returns at once for a flag that matters, and the EventSet ends its wait for an edge. An edge whose bytes
// Poll has already taken ends one Sleep early.

#ifndef TUTTI_SRC_TRANSPORT_TCP_TCP_ENDPOINT_H_
#define TUTTI_SRC_TRANSPORT_TCP_TCP_ENDPOINT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "src/base/fd.h"
#include "src/base/socket.h"
#include "src/transport/tcp/congestion.h"
#include "src/transport/tcp/connection_setup.h"
#include "src/transport/tcp/event_set.h"
#include "src/transport/tcp/receiver.h"
#include "src/transport/tcp/send_queue.h"
#include "src/transport/tcp/tcp_transport.h"
#include "src/transport/transport.h"

namespace tutti {

class TcpEndpoint final : public Endpoint, private ConnectionSetup::Owner {
 public:
  static absl::StatusOr<std::unique_ptr<Endpoint>> Create(TcpOptions options);

  int rank() const override { return options_.rank; }
  int size() const override { return static_cast<int>(options_.ranks.size()); }
  void Send(int peer, Channel channel, const MessageTag& tag, const void* data, uint64_t bytes,
            uint64_t cookie) override;
  void Expect(int peer, Channel channel, int64_t count) override;
  bool Poll(MessageSink& sink) override;
  void Sleep(absl::Time deadline) override;
  void Wake() override { events_.Wake(); }
  Striping striping() const override { return {.sockets = MostSockets(), .from_bytes = kStripedBytes}; }
  SharedMemory* shared_memory() override { return nullptr; }
  std::string Describe() const override;

 private:
  // One of the sockets of a link.
  struct Stripe {
    Fd socket = {};
    bool readable = true;
    bool writable = true;
    bool unwritten = false;  // of the queued messages, nothing has been written
    bool ended = false;      // the peer has closed, or the connection is broken; what it sent before can still be read
    SendQueue queue = {};
    Receiver receiver = {};

    void Push(const MessageTag& tag, const void* data, uint64_t bytes, uint64_t cookie) {
      unwritten |= queue.empty();
      queue.Push(tag, data, bytes, cookie);
    }
  };

  // The connection to one peer for one channel.
  struct Link {
    enum class State : uint8_t {
      kUnused,
      kWanted,  // used, and on its way: called, or waited for
      kOpen,    // has a stripe; more may come
      kLost,
    };
    int peer = 0;
    Channel channel = Channel::kCollective;
    State state = State::kUnused;
    bool active = false;    // in active_
    int64_t expected = 0;   // messages
    SendQueue shared = {};  // messages for whichever stripe is free
    std::vector<Stripe> stripes = {};

    size_t unsent() const;
  };

  TcpEndpoint(TcpOptions options, std::vector<SocketAddress> addresses, EventSet events);

  // ConnectionSetup::Owner
  absl::Status Admit(int peer, Channel channel) override;
  void Connected(int peer, Channel channel, Fd socket) override;
  void ConnectFailed(int peer, absl::Status why) override;

  Link& link(int peer, Channel channel) { return links_[peer * kChannelCount + static_cast<int>(channel)]; }
  // Of a link's stripes, the first of kSocketsPerPeerMax.
  uint64_t id(const Link& link) const { return static_cast<uint64_t>(&link - links_.data()) * kSocketsPerPeerMax; }
  int SocketsTo(int peer, Channel channel) const;
  int MostSockets() const;

  void Activate(Link& link);
  void DropIdle();
  void CollectEdges(absl::Duration timeout);
  bool HasWork() const;
  bool Flush(Link& link, bool direct, MessageSink& sink);
  bool Flush(Link& link, Stripe& stripe, MessageSink& sink);
  bool Receive(Link& link, bool direct, MessageSink& sink);
  void LoseLink(const Link& link, const absl::Status& why);
  void LosePeer(int peer, absl::Status why);
  bool ReportLost(MessageSink& sink);

  const TcpOptions options_;
  const std::vector<SocketAddress> addresses_;  // of the ranks' listeners
  const int remote_sockets_;                    // to each peer on another host
  EventSet events_;
  std::vector<Link> links_;
  Congestion congestion_;
  ConnectionSetup setup_;

  std::vector<Link*> active_;  // that send or expect something
  size_t wanted_count_ = 0;    // of the active links, those on their way
  bool woken_ = false;         // since the last Sleep
  uint64_t polls_ = 0;
  std::vector<std::pair<int, absl::Status>> lost_;  // to report
};

}  // namespace tutti

#endif  // TUTTI_SRC_TRANSPORT_TCP_TCP_ENDPOINT_H_
