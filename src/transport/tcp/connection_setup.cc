#include "src/transport/tcp/connection_setup.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/log.h"
#include "src/base/status_macros.h"

namespace tutti {
namespace {

constexpr absl::string_view kPurpose = "data";
constexpr absl::Duration kAcceptPause = absl::Milliseconds(100);
// Callers that were accepted and have not shown who they are, beyond those that the job itself may bring.
constexpr size_t kStrangersMax = 64;

}  // namespace

absl::Status ConnectionSetup::Start() {
  if (!options_.listener.valid()) return absl::OkStatus();
  TUTTI_ASSIGN_OR_RETURN(source_, LocalAddress(options_.listener.get()));
  source_ = source_.WithPort(0);
  const SocketAddress any = SocketAddress::Parse(source_.family() == AF_INET ? "0.0.0.0:0" : "[::]:0").value();
  if (source_.Host() == any.Host()) source_ = SocketAddress();
  return events_.Add(options_.listener.get(), listener_id_);
}

void ConnectionSetup::Call(int peer, Channel channel) {
  to_call_.push_back({{peer, channel}, absl::Now() + options_.connect_timeout});
}

void ConnectionSetup::Forget(int peer) {
  to_call_.erase(
      std::remove_if(to_call_.begin(), to_call_.end(), [peer](const auto& call) { return call.first.peer == peer; }),
      to_call_.end());
  for (auto it = pending_.begin(); it != pending_.end();) {
    it = it->second.target.peer == peer ? pending_.erase(it) : std::next(it);
  }
}

void ConnectionSetup::Edge(uint64_t id) {
  if (id == listener_id_) {
    listener_ready_ = true;
  } else if (auto it = pending_.find(id); it != pending_.end()) {
    it->second.ready = true;
  }
}

bool ConnectionSetup::HasWork() const {
  if (!to_call_.empty()) return true;
  if (listener_ready_ && accept_again_ == absl::InfinitePast()) return true;
  return std::any_of(pending_.begin(), pending_.end(), [](const auto& entry) { return entry.second.ready; });
}

absl::Time ConnectionSetup::NextTimer() const {
  absl::Time first = absl::InfiniteFuture();
  for (const auto& [id, pending] : pending_) first = std::min(first, pending.deadline);
  if (accept_again_ != absl::InfinitePast()) first = std::min(first, accept_again_);
  return first;
}

bool ConnectionSetup::Advance(Owner& owner) {
  bool moved = false;
  if (listener_ready_ && (accept_again_ == absl::InfinitePast() || absl::Now() >= accept_again_)) {
    AcceptAll();
    moved = true;
  }
  for (const auto& [target, deadline] : std::exchange(to_call_, {})) {
    moved = true;
    if (absl::Status status = Connect(target, deadline); !status.ok()) FailCall(target.peer, status, owner);
  }
  // By id: the owner may have us forget some of them.
  for (auto it = pending_.begin(); it != pending_.end();) {
    const uint64_t id = it->first;
    if (AdvanceOne(it->second, owner)) {
      moved = true;
      pending_.erase(id);
    }
    it = pending_.upper_bound(id);
  }
  return moved;
}

void ConnectionSetup::AcceptAll() {
  accept_again_ = absl::InfinitePast();
  while (true) {
    absl::StatusOr<Fd> socket = Accept(options_.listener.get());
    if (absl::IsUnavailable(socket.status())) {
      listener_ready_ = false;
      return;
    }
    if (!socket.ok()) {
      TUTTI_LOG_WARNING("tcp: rank {} lets callers wait: {}", options_.rank, std::string(socket.status().message()));
      accept_again_ = absl::Now() + kAcceptPause;
      return;
    }
    const absl::StatusOr<SocketAddress> from = PeerAddress(socket->get());
    if (!from.ok()) continue;  // gone already
    if (pending_.size() >= options_.ranks.size() * (kSocketsPerPeerMax + 1) + kStrangersMax) {
      auto oldest = std::find_if(pending_.begin(), pending_.end(),
                                 [](const auto& entry) { return entry.second.target.peer < 0; });
      if (oldest != pending_.end()) pending_.erase(oldest);
    }
    const absl::Status added = Add(Handshake::Receive(*std::move(socket), *from),
                                   absl::Now() + options_.connect_timeout, {.peer = -1, .channel = {}});
    if (!added.ok())
      TUTTI_LOG_WARNING("tcp: rank {} dropped a caller: {}", options_.rank, std::string(added.message()));
  }
}

absl::Status ConnectionSetup::Add(Handshake handshake, absl::Time deadline, Target target) {
  const uint64_t id = next_id_++;
  TUTTI_RETURN_IF_ERROR(events_.Add(handshake.fd(), id));
  pending_.emplace(id, Pending{std::move(handshake), deadline, target});
  return absl::OkStatus();
}

absl::Status ConnectionSetup::Connect(const Target& target, absl::Time deadline) {
  const SocketAddress& to = addresses_[target.peer];
  const SocketAddress source = source_.family() == to.family() ? source_ : SocketAddress();
  TUTTI_ASSIGN_OR_RETURN(Fd socket, StartConnect(to, source, congestion_.For(target.peer)));
  return Add(Handshake::Call(std::move(socket), to, HelloFor(target.channel)), deadline, target);
}

bool ConnectionSetup::AdvanceOne(Pending& pending, Owner& owner) {
  Handshake& handshake = pending.handshake;
  if (std::exchange(pending.ready, false)) {
    if (absl::Status status = handshake.Advance(); !status.ok()) {
      Fail(pending, status, owner);
      return true;
    }
  }
  if (handshake.state() == Handshake::State::kHeard) {
    AnswerCaller(pending, owner);
    return true;
  }
  if (handshake.state() == Handshake::State::kDone) {
    const Target target = pending.target;
    if (absl::Status status = CheckCalled(handshake.peer_hello(), target); !status.ok()) {
      Fail(pending, status, owner);
    } else {
      owner.Connected(target.peer, target.channel, handshake.TakeSocket());
    }
    return true;
  }
  if (absl::Now() < pending.deadline) return false;
  Fail(pending, handshake.TimedOut(options_.connect_timeout), owner);
  return true;
}

// The answer is the first that this end writes: it fits into the socket's buffer, or the connection is broken.
void ConnectionSetup::AnswerCaller(Pending& pending, Owner& owner) {
  Handshake& handshake = pending.handshake;
  const absl::StatusOr<Target> target = CheckCaller(handshake.peer_hello(), owner);
  Hello answer = HelloFor(target.ok() ? target->channel : Channel::kCollective);
  if (!target.ok()) answer.refusal = std::string(target.status().message());
  handshake.Answer(answer);
  absl::Status status = handshake.Advance();
  if (status.ok() && handshake.state() != Handshake::State::kDone) {
    status = absl::UnavailableError("it takes no answer to its hello");
  }
  if (!target.ok()) {
    status = absl::Status(target.status().code(),
                          absl::StrCat(handshake.address().ToString(), ": ", target.status().message()));
  }
  if (status.ok()) {
    owner.Connected(target->peer, target->channel, handshake.TakeSocket());
  } else {
    Fail(pending, status, owner);
  }
}

absl::StatusOr<ConnectionSetup::Target> ConnectionSetup::CheckCaller(const Hello& hello, Owner& owner) const {
  const Identity& self = options_.ranks[options_.rank].identity;
  if (hello.purpose != kPurpose) {
    return absl::InvalidArgumentError(
        absl::StrCat("this is the data port of ", Describe(self), ", not for \"", hello.purpose, "\""));
  }
  TUTTI_RETURN_IF_ERROR(CheckSameJob(self, hello.from));
  if (hello.from.rank == self.rank) {
    return absl::FailedPreconditionError(absl::StrCat(Describe(hello.from), " reached rank ", self.rank,
                                                      ": itself, or a second process with this rank (does another "
                                                      "host have the same address?)"));
  }
  if (hello.from.rank > self.rank || hello.channel < 0 || hello.channel >= kChannelCount) {
    return absl::InvalidArgumentError(absl::StrCat(Describe(self), " expects no connection from ", Describe(hello.from),
                                                   " on channel ", hello.channel));
  }
  const Target target = {.peer = hello.from.rank, .channel = static_cast<Channel>(hello.channel)};
  TUTTI_RETURN_IF_ERROR(owner.Admit(target.peer, target.channel));
  return target;
}

absl::Status ConnectionSetup::CheckCalled(const Hello& hello, const Target& target) const {
  const std::string at = addresses_[target.peer].ToString();
  if (!hello.refusal.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(at, " refused: ", hello.refusal));
  }
  if (absl::Status status = CheckSameJob(options_.ranks[options_.rank].identity, hello.from); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat(at, ": ", status.message()));
  }
  if (hello.purpose != kPurpose || hello.from.rank != target.peer ||
      hello.channel != static_cast<int>(target.channel)) {
    return absl::FailedPreconditionError(
        absl::StrCat(at, " belongs to ", Describe(hello.from), " (do several hosts have this address?)"));
  }
  return absl::OkStatus();
}

Hello ConnectionSetup::HelloFor(Channel channel) const {
  Hello hello;
  hello.purpose = std::string(kPurpose);
  hello.from = options_.ranks[options_.rank].identity;
  hello.channel = static_cast<int>(channel);
  return hello;
}

void ConnectionSetup::Fail(const Pending& pending, const absl::Status& why, Owner& owner) {
  if (pending.target.peer >= 0) {
    FailCall(pending.target.peer, why, owner);
  } else {
    TUTTI_LOG_WARNING("tcp: rank {} dropped a caller: {}", options_.rank, std::string(why.message()));
  }
}

void ConnectionSetup::FailCall(int peer, const absl::Status& why, Owner& owner) {
  owner.ConnectFailed(
      peer, absl::Status(why.code(), absl::StrCat("rank ", options_.rank, " at ", addresses_[options_.rank].ToString(),
                                                  " cannot connect to ", Describe(options_.ranks[peer].identity), ": ",
                                                  why.message())));
}

}  // namespace tutti
