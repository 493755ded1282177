#include "src/transport/tcp/tcp_endpoint.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status_macros.h"
#include "src/transport/tcp/link_speed.h"

namespace tutti {
namespace {

// Up to so many active links Poll tries each of them: cheaper, and sooner, than to ask epoll first.
constexpr size_t kDirectLinks = 4;
// Otherwise unneeded looks at the edges, for callers that this rank has no use for yet: one in so many Polls.
constexpr uint64_t kPollsPerLook = 256;

constexpr char kClosed[] = "it closed the connection";

// What one socket carries without becoming the bottleneck, roughly; and the most that we open unasked.
constexpr int kGigabitsPerSocket = 15;
constexpr int kOneSocketGigabits = 25;
constexpr int kDefaultSocketsMax = 4;

int SocketsForLink(const TcpOptions& options, const SocketAddress& own_address) {
  if (options.sockets_per_peer != 0) return options.sockets_per_peer;
  const int gigabits = LinkSpeed(own_address);
  if (gigabits <= kOneSocketGigabits) return 1;
  return std::min(kDefaultSocketsMax, (gigabits + kGigabitsPerSocket - 1) / kGigabitsPerSocket);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Endpoint>> TcpEndpoint::Create(TcpOptions options) {
  const int size = static_cast<int>(options.ranks.size());
  if (options.rank < 0 || options.rank >= size) {
    return absl::InvalidArgumentError(absl::StrCat("tcp: rank ", options.rank, " is not one of ", size));
  }
  if (options.rank > 0 && !options.listener.valid()) {
    return absl::InvalidArgumentError(absl::StrCat("tcp: rank ", options.rank, " has no listener for lower ranks"));
  }
  if (options.sockets_per_peer < 0 || options.sockets_per_peer > kSocketsPerPeerMax) {
    return absl::InvalidArgumentError(absl::StrCat("tcp: ", options.sockets_per_peer,
                                                   " sockets per peer: must be 1 to ", kSocketsPerPeerMax,
                                                   ", or 0 for the default"));
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
  TUTTI_ASSIGN_OR_RETURN(EventSet events, EventSet::Create(std::move(options.wake)));
  std::unique_ptr<TcpEndpoint> endpoint(new TcpEndpoint(std::move(options), std::move(addresses), std::move(events)));
  TUTTI_RETURN_IF_ERROR(endpoint->setup_.Start());
  return endpoint;
}

TcpEndpoint::TcpEndpoint(TcpOptions options, std::vector<SocketAddress> addresses, EventSet events)
    : options_(std::move(options)),
      addresses_(std::move(addresses)),
      remote_sockets_(SocketsForLink(options_, addresses_[static_cast<size_t>(options_.rank)])),
      events_(std::move(events)),
      links_(options_.ranks.size() * kChannelCount),
      congestion_(options_, addresses_),
      setup_(options_, addresses_, congestion_, events_, /*first_id=*/links_.size() * kSocketsPerPeerMax) {
  if (options_.listener.valid()) congestion_.PrepareListener(options_.listener.get());
  for (size_t index = 0; index < links_.size(); ++index) {
    links_[index].peer = static_cast<int>(index / kChannelCount);
    links_[index].channel = static_cast<Channel>(index % kChannelCount);
  }
}

int TcpEndpoint::SocketsTo(int peer, Channel channel) const {
  if (channel != Channel::kCollective) return 1;
  return options_.sockets_per_peer == 0 && congestion_.OnOwnHost(peer) ? 1 : remote_sockets_;
}

int TcpEndpoint::MostSockets() const {
  int most = 1;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank()) most = std::max(most, SocketsTo(peer, Channel::kCollective));
  }
  return most;
}

size_t TcpEndpoint::Link::unsent() const {
  size_t count = shared.size();
  for (const Stripe& stripe : stripes) count += stripe.queue.size();
  return count;
}

void TcpEndpoint::Send(int peer, Channel channel, const MessageTag& tag, const void* data, uint64_t bytes,
                       uint64_t cookie) {
  assert(peer >= 0 && peer < size() && peer != rank());
  Link& to = link(peer, channel);
  if (to.state == Link::State::kLost) return;
  // Where there is but one socket, messages keep their order.
  const bool one = to.stripes.size() == 1 && to.shared.empty();
  const bool small_of_several = to.stripes.size() > 1 && bytes < kStripedBytes;
  if (one || small_of_several) {
    to.stripes[0].Push(tag, data, bytes, cookie);
  } else {
    to.shared.Push(tag, data, bytes, cookie);
  }
  Activate(to);
}

void TcpEndpoint::Expect(int peer, Channel channel, int64_t count) {
  assert(peer >= 0 && peer < size() && peer != rank());
  Link& from = link(peer, channel);
  if (from.state == Link::State::kLost || count == 0) return;
  from.expected += count;
  Activate(from);
}

void TcpEndpoint::Activate(Link& link) {
  if (link.active) return;
  link.active = true;
  active_.push_back(&link);
  if (link.state == Link::State::kUnused) {
    link.state = Link::State::kWanted;
    const int calls = rank() < link.peer ? SocketsTo(link.peer, link.channel) : 0;
    for (int i = 0; i < calls; ++i) setup_.Call(link.peer, link.channel);
  }
  if (link.state == Link::State::kWanted) ++wanted_count_;
}

bool TcpEndpoint::Poll(MessageSink& sink) {
  const bool direct = active_.size() <= kDirectLinks;
  if (!direct || wanted_count_ > 0 || ++polls_ % kPollsPerLook == 0) CollectEdges(absl::ZeroDuration());
  bool moved = setup_.Advance(*this);
  // By index: the sink may activate links.
  for (size_t i = 0; i < active_.size(); ++i) moved |= Flush(*active_[i], direct, sink);
  for (size_t i = 0; i < active_.size(); ++i) moved |= Receive(*active_[i], direct, sink);
  if (!lost_.empty()) moved |= ReportLost(sink);
  DropIdle();
  return moved;
}

bool TcpEndpoint::Flush(Link& link, bool direct, MessageSink& sink) {
  bool moved = false;
  // By index, here and below: a stripe may be lost, and all of its link with it.
  for (size_t i = 0; i < link.stripes.size(); ++i) {
    Stripe& stripe = link.stripes[i];
    if (direct) stripe.writable = true;
    if (stripe.queue.empty() && !link.shared.empty()) {
      link.shared.MoveFirstTo(stripe.queue);
      stripe.unwritten = true;
    }
    if (!stripe.queue.empty()) moved |= Flush(link, stripe, sink);
  }
  return moved;
}

bool TcpEndpoint::Flush(Link& link, Stripe& stripe, MessageSink& sink) {
  // The end of a socket that is not read shows as an edge only: we look for it before writing. Afterwards it is no
  // news: the peer may have taken the message, and have closed because it was the last.
  if (std::exchange(stripe.unwritten, false) && link.expected == 0) CollectEdges(absl::ZeroDuration());
  if (stripe.ended && link.expected == 0) {
    LoseLink(link, absl::UnavailableError(kClosed));
    return true;
  }
  if (!stripe.writable) return false;
  const absl::StatusOr<bool> moved = stripe.queue.Flush(stripe.socket.get(), stripe.writable, sink);
  if (!moved.ok()) LoseLink(link, moved.status());
  return !moved.ok() || *moved;
}

bool TcpEndpoint::Receive(Link& link, bool direct, MessageSink& sink) {
  bool moved = false;
  for (size_t i = 0; i < link.stripes.size() && link.expected > 0; ++i) {
    Stripe& stripe = link.stripes[i];
    if (direct) stripe.readable = true;
    const absl::StatusOr<bool> received =
        stripe.receiver.Receive(stripe.socket.get(), link.peer, link.channel, link.expected, stripe.readable, sink);
    // No further edge will tell of the end.
    stripe.readable |= stripe.ended;
    if (!received.ok()) LoseLink(link, received.status());
    moved |= !received.ok() || *received;
  }
  return moved;
}

void TcpEndpoint::DropIdle() {
  auto idle = [](Link* link) {
    link->active = link->expected > 0 || link->unsent() > 0;
    return !link->active;
  };
  active_.erase(std::remove_if(active_.begin(), active_.end(), idle), active_.end());
  wanted_count_ = std::count_if(active_.begin(), active_.end(),
                                [](const Link* link) { return link->state == Link::State::kWanted; });
}

void TcpEndpoint::CollectEdges(absl::Duration timeout) {
  woken_ |= events_.Wait(timeout, [this](uint64_t id, uint32_t events) {
    const uint64_t index = id / kSocketsPerPeerMax;
    if (index >= links_.size()) return setup_.Edge(id);
    if (id % kSocketsPerPeerMax >= links_[index].stripes.size()) return;  // lost meanwhile
    Stripe& stripe = links_[index].stripes[id % kSocketsPerPeerMax];
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) stripe.ended = true;
    if (events & EPOLLIN || stripe.ended) stripe.readable = true;
    if (events & EPOLLOUT || stripe.ended) stripe.writable = true;
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
    return std::any_of(link->stripes.begin(), link->stripes.end(), [link](const Stripe& stripe) {
      const bool can_send = stripe.writable && (!stripe.queue.empty() || !link->shared.empty());
      return can_send || (link->expected > 0 && stripe.receiver.CanContinue(stripe.readable));
    });
  });
}

absl::Status TcpEndpoint::Admit(int peer, Channel channel) {
  const Link& from = link(peer, channel);
  if (from.state == Link::State::kLost) {
    return absl::UnavailableError(absl::StrCat("rank ", rank(), " has given up rank ", peer));
  }
  // Unless it was asked for, what the other host makes of its link decides.
  const bool up_to_caller =
      channel == Channel::kCollective && options_.sockets_per_peer == 0 && !congestion_.OnOwnHost(peer);
  const auto most = static_cast<size_t>(up_to_caller ? kDefaultSocketsMax : SocketsTo(peer, channel));
  if (from.stripes.size() < most) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat("rank ", peer, " is already connected to rank ", rank(), " (two processes with one rank?)"));
}

void TcpEndpoint::Connected(int peer, Channel channel, Fd socket) {
  Link& opened = link(peer, channel);
  if (opened.state == Link::State::kLost) return;
  opened.state = Link::State::kOpen;
  if (peer < rank()) congestion_.Apply(socket.get(), peer);
  events_.Rename(socket.get(), id(opened) + opened.stripes.size());
  opened.stripes.push_back({.socket = std::move(socket)});
}

void TcpEndpoint::ConnectFailed(int peer, absl::Status why) { LosePeer(peer, std::move(why)); }

void TcpEndpoint::LoseLink(const Link& link, const absl::Status& why) {
  LosePeer(link.peer, absl::Status(why.code(), absl::StrCat("rank ", rank(), " lost ",
                                                            tutti::Describe(options_.ranks[link.peer].identity), " at ",
                                                            options_.ranks[link.peer].address, ": ", why.message(),
                                                            ", with ", link.expected, " messages expected from it and ",
                                                            link.unsent(), " waiting to be sent to it")));
}

void TcpEndpoint::LosePeer(int peer, absl::Status why) {
  if (link(peer, Channel::kCollective).state == Link::State::kLost) return;
  for (int channel = 0; channel < kChannelCount; ++channel) {
    Link& gone = link(peer, static_cast<Channel>(channel));
    gone.state = Link::State::kLost;
    gone.stripes.clear();
    gone.shared.Clear();
    gone.expected = 0;
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
                      "\ntcp sockets per peer = ", MostSockets(), " for messages from ", kStripedBytes, " bytes on (",
                      options_.sockets_per_peer != 0 ? "asked for" : "within a host one, else by the link's speed",
                      ")\ntcp connect timeout = ", absl::FormatDuration(options_.connect_timeout), " (set)\n");
}

absl::StatusOr<std::unique_ptr<Endpoint>> MakeTcpEndpoint(TcpOptions options) {
  return TcpEndpoint::Create(std::move(options));
}

}  // namespace tutti
