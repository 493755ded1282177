#include "src/transport/tcp/tcp_endpoint.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status_macros.h"

namespace tutti {
namespace {

// Up to so many active links Poll tries each of them: cheaper, and sooner, than to ask epoll first.
constexpr size_t kDirectLinks = 4;
// Otherwise unneeded looks at the edges, for callers that this rank has no use for yet: one in so many Polls.
constexpr uint64_t kPollsPerLook = 256;

constexpr char kClosed[] = "it closed the connection";

}  // namespace

absl::StatusOr<std::unique_ptr<Endpoint>> TcpEndpoint::Create(TcpOptions options) {
  const int size = static_cast<int>(options.ranks.size());
  if (options.rank < 0 || options.rank >= size) {
    return absl::InvalidArgumentError(absl::StrCat("tcp: rank ", options.rank, " is not one of ", size));
  }
  if (options.rank > 0 && !options.listener.valid()) {
    return absl::InvalidArgumentError(absl::StrCat("tcp: rank ", options.rank, " has no listener for lower ranks"));
  }
  std::vector<SocketAddress> addresses;
  for (int rank = 0; rank < size; ++rank) {
    absl::StatusOr<SocketAddress> address = SocketAddress::Parse(options.ranks[rank].address);
    if (!address.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("tcp: rank ", rank, ": ", address.status().message()));
    }
    if (options.ranks[rank].identity.rank != rank) {
      return absl::InvalidArgumentError(
          absl::StrCat("tcp: ", tutti::Describe(options.ranks[rank].identity), " is listed as rank ", rank));
    }
    addresses.push_back(*address);
  }
  TUTTI_ASSIGN_OR_RETURN(EventSet events, EventSet::Create());
  std::unique_ptr<TcpEndpoint> endpoint(new TcpEndpoint(std::move(options), std::move(addresses), std::move(events)));
  TUTTI_RETURN_IF_ERROR(endpoint->setup_.Start());
  return endpoint;
}

TcpEndpoint::TcpEndpoint(TcpOptions options, std::vector<SocketAddress> addresses, EventSet events)
    : options_(std::move(options)),
      addresses_(std::move(addresses)),
      events_(std::move(events)),
      links_(options_.ranks.size() * kChannelCount),
      congestion_(options_, addresses_),
      setup_(options_, addresses_, congestion_, events_, /*first_id=*/links_.size()) {
  if (options_.listener.valid()) congestion_.PrepareListener(options_.listener.get());
  for (Link& each : links_) {
    const auto index = id(each);
    each.peer = static_cast<int>(index / kChannelCount);
    each.channel = static_cast<Channel>(index % kChannelCount);
  }
}

void TcpEndpoint::Send(int peer, Channel channel, const MessageTag& tag, const void* data, uint64_t bytes,
                       uint64_t cookie) {
  assert(peer >= 0 && peer < size() && peer != rank());
  Link& to = link(peer, channel);
  if (to.state == Link::State::kLost) return;
  to.unwritten |= to.queue.empty();
  to.queue.Push(tag, data, bytes, cookie);
  Activate(to);
}

void TcpEndpoint::Expect(int peer, Channel channel, uint32_t count) {
  assert(peer >= 0 && peer < size() && peer != rank());
  Link& from = link(peer, channel);
  if (from.state == Link::State::kLost || count == 0) return;
  from.receiver.Expect(count);
  Activate(from);
}

void TcpEndpoint::Activate(Link& link) {
  if (link.active) return;
  link.active = true;
  active_.push_back(&link);
  if (link.state == Link::State::kUnused) {
    link.state = Link::State::kWanted;
    if (rank() < link.peer) setup_.Call(link.peer, link.channel);
  }
  if (link.state == Link::State::kWanted) ++wanted_count_;
}

bool TcpEndpoint::Poll(MessageSink& sink) {
  const bool direct = active_.size() <= kDirectLinks;
  if (!direct || wanted_count_ > 0 || ++polls_ % kPollsPerLook == 0) CollectEdges(absl::ZeroDuration());
  bool moved = setup_.Advance(*this);
  // By index: the sink may activate links.
  for (size_t i = 0; i < active_.size(); ++i) {
    if (direct) active_[i]->writable = true;
    moved |= Flush(*active_[i], sink);
  }
  for (size_t i = 0; i < active_.size(); ++i) {
    if (direct) active_[i]->readable = true;
    moved |= Receive(*active_[i], sink);
  }
  if (!lost_.empty()) moved |= ReportLost(sink);
  DropIdle();
  return moved;
}

bool TcpEndpoint::Flush(Link& link, MessageSink& sink) {
  if (link.state != Link::State::kOpen || link.queue.empty()) return false;
  // The end of a socket that is not read shows as an edge only: we look for it before writing. Afterwards it is no
  // news: the peer may have taken the message, and have closed because it was the last.
  if (std::exchange(link.unwritten, false) && link.receiver.expected() == 0) CollectEdges(absl::ZeroDuration());
  if (link.ended && link.receiver.expected() == 0) {
    LoseLink(link, absl::UnavailableError(kClosed));
    return true;
  }
  if (!link.writable) return false;
  const absl::StatusOr<bool> moved = link.queue.Flush(link.socket.get(), link.writable, sink);
  if (!moved.ok()) LoseLink(link, moved.status());
  return !moved.ok() || *moved;
}

bool TcpEndpoint::Receive(Link& link, MessageSink& sink) {
  if (link.state != Link::State::kOpen || link.receiver.expected() == 0) return false;
  const absl::StatusOr<bool> moved =
      link.receiver.Receive(link.socket.get(), link.peer, link.channel, link.readable, sink);
  // No further edge will tell of the end.
  link.readable |= link.ended;
  if (!moved.ok()) LoseLink(link, moved.status());
  return !moved.ok() || *moved;
}

void TcpEndpoint::DropIdle() {
  auto idle = [](Link* link) {
    link->active = !link->queue.empty() || link->receiver.expected() > 0;
    return !link->active;
  };
  active_.erase(std::remove_if(active_.begin(), active_.end(), idle), active_.end());
  wanted_count_ = std::count_if(active_.begin(), active_.end(),
                                [](const Link* link) { return link->state == Link::State::kWanted; });
}

void TcpEndpoint::CollectEdges(absl::Duration timeout) {
  woken_ |= events_.Wait(timeout, [this](uint64_t id, uint32_t events) {
    if (id >= links_.size()) return setup_.Edge(id);
    Link& link = links_[id];
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) link.ended = true;
    if (events & EPOLLIN || link.ended) link.readable = true;
    if (events & EPOLLOUT || link.ended) link.writable = true;
  });
}

void TcpEndpoint::Sleep(absl::Time deadline) {
  while (!woken_ && !HasWork()) {
    const absl::Time until = std::min(deadline, setup_.NextTimer());
    const absl::Time now = absl::Now();
    if (now >= until) break;
    CollectEdges(until - now);
  }
  woken_ = false;
}

bool TcpEndpoint::HasWork() const {
  if (setup_.HasWork() || !lost_.empty()) return true;
  return std::any_of(active_.begin(), active_.end(), [](const Link* link) {
    return link->state == Link::State::kOpen &&
           ((!link->queue.empty() && link->writable) || link->receiver.CanContinue(link->readable));
  });
}

absl::Status TcpEndpoint::Admit(int peer, Channel channel) {
  switch (link(peer, channel).state) {
    case Link::State::kUnused:
    case Link::State::kWanted:
      return absl::OkStatus();
    case Link::State::kOpen:
      return absl::AlreadyExistsError(
          absl::StrCat("rank ", peer, " is already connected to rank ", rank(), " (two processes with one rank?)"));
    case Link::State::kLost:
      break;
  }
  return absl::UnavailableError(absl::StrCat("rank ", rank(), " has given up rank ", peer));
}

void TcpEndpoint::Connected(int peer, Channel channel, Fd socket) {
  Link& opened = link(peer, channel);
  if (opened.state == Link::State::kLost) return;
  opened.state = Link::State::kOpen;
  opened.socket = std::move(socket);
  if (peer < rank()) congestion_.Apply(opened.socket.get(), peer);
  events_.Rename(opened.socket.get(), id(opened));
  opened.readable = opened.writable = true;
}

void TcpEndpoint::ConnectFailed(int peer, absl::Status why) { LosePeer(peer, std::move(why)); }

void TcpEndpoint::LoseLink(const Link& link, const absl::Status& why) {
  LosePeer(link.peer,
           absl::Status(
               why.code(),
               absl::StrCat("rank ", rank(), " lost ", tutti::Describe(options_.ranks[link.peer].identity), " at ",
                            options_.ranks[link.peer].address, ": ", why.message(), ", with ", link.receiver.expected(),
                            " messages expected from it and ", link.queue.size(), " waiting to be sent to it")));
}

void TcpEndpoint::LosePeer(int peer, absl::Status why) {
  if (link(peer, Channel::kCollective).state == Link::State::kLost) return;
  for (int channel = 0; channel < kChannelCount; ++channel) {
    Link& gone = link(peer, static_cast<Channel>(channel));
    gone.state = Link::State::kLost;
    gone.socket.Close();
    gone.queue.Clear();
    gone.receiver.Stop();
  }
  setup_.Forget(peer);
  lost_.emplace_back(peer, std::move(why));
}

bool TcpEndpoint::ReportLost(MessageSink& sink) {
  const std::vector<std::pair<int, absl::Status>> lost = std::exchange(lost_, {});
  for (const auto& [peer, why] : lost) sink.PeerLost(peer, why);
  return true;
}

std::string TcpEndpoint::Describe() const {
  return absl::StrCat("transport = tcp (its endpoint was made)\ntcp address = ", options_.ranks[rank()].address,
                      " (its listener)\ntcp congestion control = ", congestion_.Describe(),
                      "\ntcp connect timeout = ", absl::FormatDuration(options_.connect_timeout), " (set)\n");
}

absl::StatusOr<std::unique_ptr<Endpoint>> MakeTcpEndpoint(TcpOptions options) {
  return TcpEndpoint::Create(std::move(options));
}

}  // namespace tutti
