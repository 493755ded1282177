#include "src/transport/sim/sim_transport.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace tutti {
namespace {

// SplitMix64. One per link, so that what happens on a link does not depend on the others.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Below(uint64_t bound) { return Next() % bound; }

 private:
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  uint64_t state_;
};

struct Message {
  MessageTag tag;
  const std::byte* data = nullptr;  // in the sender's memory, or in `copy`
  uint64_t bytes = 0;
  uint64_t cookie = 0;
  bool sent = false;  // the sender may reuse its memory
  std::vector<std::byte> copy = {};
  uint64_t due = 0;  // number of the receiver's Poll before which it does not show
};

// What is under way from one rank to another on one channel. Only the receiver removes the first message; the end of
// either rank removes the last ones.
struct Link {
  int from;
  Channel channel;
  Random random;
  std::deque<Message> messages = {};
  uint64_t expected = 0;  // by the receiver; counts the message in progress
  bool failed = false;    // the sender's messages cannot be delivered
  bool refused = false;   // by the receiver

  // Of the first message.
  enum class State : uint8_t { kUnseen, kKept, kTaken } state = State::kUnseen;
  std::byte* destination = nullptr;
  uint64_t done = 0;
};

struct Rank {
  uint64_t polls = 0;
  bool woken = false;
  absl::CondVar changed = {};
  std::vector<std::unique_ptr<Link>> incoming = {};                   // in order of first use
  absl::flat_hash_map<std::pair<int, int>, Link*> link_by_from = {};  // key: from, channel
  std::vector<uint64_t> sent = {};                                    // cookies to report
  std::vector<bool> lost = {};                                        // peers reported
  bool gone = false;
  absl::Status why_gone = absl::OkStatus();
};

class Network final : public SimNetwork, public std::enable_shared_from_this<Network> {
 public:
  explicit Network(const SimOptions& options) : options_(options), ranks_(options.size) {
    for (Rank& rank : ranks_) rank.lost.resize(options.size);
  }

  std::unique_ptr<Endpoint> MakeEndpoint(int rank) override;
  void Kill(int rank, absl::Status why) override;

  const SimOptions& options() const { return options_; }

  void Send(int from, int to, Channel channel, Message message);
  void Expect(int rank, int peer, Channel channel, int64_t count);
  bool Poll(int rank, MessageSink& sink);
  void Sleep(int rank, absl::Time deadline);
  void Wake(int rank);
  void Close(int rank);

 private:
  Link& LinkBetween(int from, int to, Channel channel) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Ready(int rank) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsLost(int rank, int peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Leave(int rank, absl::Status why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // The parts of Poll. They give up the lock around every call of the sink.
  bool ReportSent(int rank, MessageSink& sink) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Receive(int rank, Link& link, MessageSink& sink) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Ask(int rank, Link& link, MessageSink& sink) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool CopyPiece(Link& link) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Finish(Link& link, MessageSink& sink) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool ReportLost(int rank, MessageSink& sink) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const SimOptions options_;
  absl::Mutex mu_;
  std::vector<Rank> ranks_ ABSL_GUARDED_BY(mu_);
  int gone_count_ ABSL_GUARDED_BY(mu_) = 0;
};

class SimEndpoint final : public Endpoint {
 public:
  SimEndpoint(std::shared_ptr<Network> network, int rank) : network_(std::move(network)), rank_(rank) {}
  ~SimEndpoint() override { network_->Close(rank_); }

  int rank() const override { return rank_; }
  int size() const override { return network_->options().size; }
  void Send(int peer, Channel channel, const MessageTag& tag, const void* data, uint64_t bytes,
            uint64_t cookie) override {
    network_->Send(rank_, peer, channel,
                   {.tag = tag, .data = static_cast<const std::byte*>(data), .bytes = bytes, .cookie = cookie});
  }
  void Expect(int peer, Channel channel, int64_t count) override { network_->Expect(rank_, peer, channel, count); }
  bool Poll(MessageSink& sink) override { return network_->Poll(rank_, sink); }
  void Sleep(absl::Time deadline) override { network_->Sleep(rank_, deadline); }
  void Wake() override { network_->Wake(rank_); }
  Striping striping() const override { return {}; }
  SharedMemory* shared_memory() override { return nullptr; }
  std::string Describe() const override {
    const SimOptions& options = network_->options();
    return absl::StrCat("transport = sim (asked for)\nsim seed = ", options.seed, " (asked for)\nsim delay = 0 to ",
                        options.delay_polls_max, " polls (asked for)\n");
  }

 private:
  const std::shared_ptr<Network> network_;
  const int rank_;
};

std::unique_ptr<Endpoint> Network::MakeEndpoint(int rank) {
  assert(rank >= 0 && rank < options_.size);
  return std::make_unique<SimEndpoint>(shared_from_this(), rank);
}

void Network::Kill(int rank, absl::Status why) {
  absl::MutexLock lock(&mu_);
  if (ranks_[rank].gone) return;
  for (int other = 0; other < options_.size; ++other) {
    for (const auto& link : ranks_[other].incoming) {
      if (link->from == rank) link->messages.clear();
    }
  }
  Leave(rank, std::move(why));
}

void Network::Close(int rank) {
  absl::MutexLock lock(&mu_);
  if (!ranks_[rank].gone) Leave(rank, absl::UnavailableError("its endpoint was destroyed"));
}

// Messages that still need the rank's memory end here, and so do those behind them and those to the rank.
void Network::Leave(int rank, absl::Status why) {
  ranks_[rank].gone = true;
  ranks_[rank].why_gone = std::move(why);
  ++gone_count_;
  for (Rank& other : ranks_) {
    for (const auto& link : other.incoming) {
      if (link->from != rank) continue;
      auto& messages = link->messages;
      messages.erase(std::find_if(messages.begin(), messages.end(), [](const Message& m) { return !m.sent; }),
                     messages.end());
    }
    other.changed.SignalAll();
  }
  for (const auto& link : ranks_[rank].incoming) {
    auto& messages = link->messages;
    link->failed = std::any_of(messages.begin(), messages.end(), [](const Message& m) { return !m.sent; });
    messages.clear();
  }
}

Link& Network::LinkBetween(int from, int to, Channel channel) {
  assert(to >= 0 && to < options_.size && from >= 0 && from < options_.size);
  Rank& receiver = ranks_[to];
  Link*& link = receiver.link_by_from[{from, static_cast<int>(channel)}];
  if (link == nullptr) {
    const uint64_t place =
        (static_cast<uint64_t>(from) * options_.size + to) * kChannelCount + static_cast<int>(channel);
    receiver.incoming.push_back(std::make_unique<Link>(
        Link{.from = from, .channel = channel, .random = Random(options_.seed + (place << 32))}));
    link = receiver.incoming.back().get();
  }
  return *link;
}

void Network::Send(int from, int to, Channel channel, Message message) {
  absl::MutexLock lock(&mu_);
  if (ranks_[from].gone) return;
  Link& link = LinkBetween(from, to, channel);
  if (ranks_[to].gone) {
    link.failed = true;
    return;
  }
  message.due = ranks_[to].polls + link.random.Below(options_.delay_polls_max + 1);
  if (link.random.Below(2) == 0) {
    message.copy.assign(message.data, message.data + message.bytes);
    message.data = message.copy.data();
    message.sent = true;
    ranks_[from].sent.push_back(message.cookie);
  }
  link.messages.push_back(std::move(message));
  ranks_[to].changed.Signal();
}

void Network::Expect(int rank, int peer, Channel channel, int64_t count) {
  absl::MutexLock lock(&mu_);
  LinkBetween(peer, rank, channel).expected += static_cast<uint64_t>(count);
}

bool Network::Poll(int rank, MessageSink& sink) {
  absl::MutexLock lock(&mu_);
  ++ranks_[rank].polls;
  bool moved = ReportSent(rank, sink);
  // By index: the sink may add links.
  for (size_t i = 0; i < ranks_[rank].incoming.size(); ++i) {
    moved |= Receive(rank, *ranks_[rank].incoming[i], sink);
  }
  if (gone_count_ > 0) moved |= ReportLost(rank, sink);
  return moved;
}

bool Network::ReportSent(int rank, MessageSink& sink) {
  const std::vector<uint64_t> sent = std::exchange(ranks_[rank].sent, {});
  if (ranks_[rank].gone || sent.empty()) return false;
  mu_.Unlock();
  for (uint64_t cookie : sent) sink.Sent(cookie);
  mu_.Lock();
  return true;
}

bool Network::Receive(int rank, Link& link, MessageSink& sink) {
  bool moved = false;
  while (!ranks_[rank].gone && !link.refused && link.expected > 0 && !link.messages.empty() &&
         link.messages.front().due <= ranks_[rank].polls) {
    if (link.state != Link::State::kTaken && !Ask(rank, link, sink)) return moved;
    moved = true;
    if (!CopyPiece(link)) return true;
    Finish(link, sink);
  }
  return moved;
}

// True if the first message has been taken, and is still there.
bool Network::Ask(int rank, Link& link, MessageSink& sink) {
  const MessageTag tag = link.messages.front().tag;
  const uint64_t bytes = link.messages.front().bytes;
  mu_.Unlock();
  const MessageSink::Delivery delivery = sink.Arrived(link.from, link.channel, tag, bytes);
  mu_.Lock();
  switch (delivery.verdict) {
    case MessageSink::Verdict::kTake:
      link.state = Link::State::kTaken;
      link.destination = static_cast<std::byte*>(delivery.destination);
      link.done = 0;
      break;
    case MessageSink::Verdict::kLater:
      link.state = Link::State::kKept;
      break;
    case MessageSink::Verdict::kRefuse:
      link.refused = true;
      break;
  }
  return link.state == Link::State::kTaken && !ranks_[rank].gone && !link.messages.empty();
}

// True if it was the last piece.
bool Network::CopyPiece(Link& link) {
  const Message& message = link.messages.front();
  const uint64_t rest = message.bytes - link.done;
  if (rest == 0) return true;
  const uint64_t piece = link.random.Below(2) == 0 ? rest : 1 + link.random.Below(rest);
  std::memcpy(link.destination + link.done, message.data + link.done, piece);
  link.done += piece;
  return link.done == message.bytes;
}

void Network::Finish(Link& link, MessageSink& sink) {
  const MessageTag tag = link.messages.front().tag;
  if (!link.messages.front().sent) {
    Rank& sender = ranks_[link.from];
    sender.sent.push_back(link.messages.front().cookie);
    sender.changed.Signal();
  }
  link.messages.pop_front();
  link.state = Link::State::kUnseen;
  --link.expected;
  mu_.Unlock();
  sink.Received(link.from, link.channel, tag);
  mu_.Lock();
}

bool Network::ReportLost(int rank, MessageSink& sink) {
  bool moved = false;
  for (int peer = 0; peer < options_.size; ++peer) {
    if (!IsLost(rank, peer)) continue;
    ranks_[rank].lost[peer] = true;
    moved = true;
    const absl::Status why = ranks_[peer].why_gone;
    mu_.Unlock();
    sink.PeerLost(peer, absl::Status(why.code(), absl::StrCat("rank ", peer, " (sim): ", why.message())));
    mu_.Lock();
  }
  return moved;
}

// Whether the peer's end concerns the rank, and has yet to be reported.
bool Network::IsLost(int rank, int peer) {
  if (ranks_[rank].gone || !ranks_[peer].gone || ranks_[rank].lost[peer]) return false;
  for (int channel = 0; channel < kChannelCount; ++channel) {
    auto in = ranks_[rank].link_by_from.find({peer, channel});
    if (in != ranks_[rank].link_by_from.end() && in->second->expected > 0 && in->second->messages.empty()) return true;
    auto out = ranks_[peer].link_by_from.find({rank, channel});
    if (out != ranks_[peer].link_by_from.end() && out->second->failed) return true;
  }
  return false;
}

// A message that was kept is no reason to poll again: the engine knows that it is there.
bool Network::Ready(int rank) {
  const Rank& self = ranks_[rank];
  if (self.gone) return false;
  if (!self.sent.empty()) return true;
  for (const auto& link : self.incoming) {
    if (link->expected > 0 && !link->refused && !link->messages.empty() && link->state != Link::State::kKept)
      return true;
  }
  for (int peer = 0; gone_count_ > 0 && peer < options_.size; ++peer) {
    if (IsLost(rank, peer)) return true;
  }
  return false;
}

void Network::Sleep(int rank, absl::Time deadline) {
  absl::MutexLock lock(&mu_);
  Rank& self = ranks_[rank];
  while (!self.woken && !Ready(rank)) {
    if (self.changed.WaitWithDeadline(&mu_, deadline)) break;
  }
  self.woken = false;
}

void Network::Wake(int rank) {
  absl::MutexLock lock(&mu_);
  ranks_[rank].woken = true;
  ranks_[rank].changed.Signal();
}

}  // namespace

std::shared_ptr<SimNetwork> SimNetwork::Create(const SimOptions& options) { return std::make_shared<Network>(options); }

}  // namespace tutti
