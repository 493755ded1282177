#include "src/rendezvous/membership_server.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "src/base/log.h"
#include "src/base/socket.h"
#include "src/rendezvous/come_again.h"

namespace tutti {
namespace {

using Message = MembershipMessage;
using Type = MembershipMessage::Type;

// For a caller to say who it is. More callers than these that have not are strangers: the oldest is dropped.
constexpr absl::Duration kHelloLimit = absl::Seconds(10);
constexpr size_t kStrangersMax = 256;
// For the last words to a caller.
constexpr absl::Duration kClosingGrace = absl::Milliseconds(300);
// Without descriptors to accept with, until the next attempt.
constexpr absl::Duration kAcceptPause = absl::Milliseconds(100);

}  // namespace

MembershipServer::MembershipServer(EventLoop& loop, Fd listener, const MembershipOptions& options)
    : loop_(loop), options_(options), listener_(std::move(listener)), roster_(options.self) {
  const absl::Status watched = loop_.Watch(listener_.get(), EPOLLIN, [this](uint32_t) { Accept(); });
  if (!watched.ok()) Decide(watched);
}

MembershipServer::~MembershipServer() {
  if (listener_.valid()) loop_.Unwatch(listener_.get());
  for (const auto& timer : {timer_, resume_timer_, patience_timer_}) {
    if (timer.has_value()) loop_.Cancel(*timer);
  }
}

void MembershipServer::Accept() {
  while (true) {
    absl::StatusOr<Fd> socket = tutti::Accept(listener_.get());
    if (absl::IsUnavailable(socket.status())) return;
    if (!socket.ok()) {
      TUTTI_LOG_WARNING("membership: {}", std::string(socket.status().message()));
      loop_.Rewatch(listener_.get(), 0);
      resume_timer_ = loop_.After(kAcceptPause, [this] { loop_.Rewatch(listener_.get(), EPOLLIN); });
      return;
    }
    const CallerId id = ++last_id_;
    Caller& caller = callers_[id];
    caller.since = absl::Now();
    caller.connection = std::make_unique<FrameConnection>(
        loop_, *std::move(socket), FrameConnection::Limits{.frame_bytes = kHelloBytesMax},
        FrameConnection::Callbacks{
            .frame = [this, id](std::string payload) { OnFrame(id, payload); },
            .closed = [this, id](absl::Status why) { OnClosed(id, why); },
        });
    caller.address = caller.connection->peer().ToString();
    DropOldestStranger();
    Act();
  }
}

void MembershipServer::DropOldestStranger() {
  const auto is_stranger = [](const auto& entry) { return entry.second.rank < 0; };
  if (static_cast<size_t>(std::count_if(callers_.begin(), callers_.end(), is_stranger)) <= kStrangersMax) return;
  callers_.erase(std::find_if(callers_.begin(), callers_.end(), is_stranger));
}

void MembershipServer::OnFrame(CallerId id, const std::string& payload) {
  const auto found = callers_.find(id);
  if (found == callers_.end() || found->second.closing) return;
  Caller& caller = found->second;
  if (caller.rank < 0) {
    OnHello(caller, id, payload);
  } else if (const absl::StatusOr<Message> message = DecodeMembershipMessage(payload, options_.self); message.ok()) {
    OnMessage(caller, *message);
  } else {
    caller.closing = true;
    const int rank = caller.rank;
    caller.connection->CloseGracefully(kClosingGrace);
    LoseRank(rank, message.status().message());
  }
  Act();
}

void MembershipServer::OnHello(Caller& caller, CallerId id, const std::string& payload) {
  const absl::StatusOr<Hello> hello = DecodeHello(payload);
  if (!hello.ok() || hello->purpose != "membership") {
    TUTTI_LOG_WARNING("membership: dropped a connection from {}: {}", caller.address,
                      hello.ok() ? "it is meant for something else" : std::string(hello.status().message()));
    callers_.erase(id);
    return;
  }
  // A group that was complete is the last one, for those who come now.
  if (!verdict_.ok()) {
    return Refuse(caller, absl::StrCat("the group has failed already: ", verdict_.message()), tribunal_.has_value());
  }
  if (done_ != nullptr) return Refuse(caller, "the group is being destroyed", /*temporary=*/true);
  const absl::Status seated = roster_.Seat(hello->from, caller.address);
  if (IsComeAgain(seated)) return Refuse(caller, std::string(seated.message()), /*temporary=*/true);
  if (!seated.ok()) {
    TUTTI_LOG_WARNING("membership: refused {} from {}: {}", Describe(hello->from), caller.address,
                      std::string(seated.message()));
    if (absl::IsAlreadyExists(seated)) {
      const Message notice{.type = Type::kNotice,
                           .text = absl::StrCat("another process, ", Describe(hello->from), " from ", caller.address,
                                                ", wanted to join as rank ", hello->from.rank, " and was refused")};
      for (auto& [other, holder] : callers_) {
        if (holder.rank == hello->from.rank && !holder.closing) holder.connection->Send(Encode(notice));
      }
    }
    return Refuse(caller, std::string(seated.message()), /*temporary=*/false);
  }
  caller.rank = hello->from.rank;
  caller.connection->set_limits({.frame_bytes = kMembershipMessageBytesMax});
  caller.connection->Send(EncodeMembershipHello(options_.self));
}

void MembershipServer::Refuse(Caller& caller, std::string why, bool temporary) {
  caller.closing = true;
  caller.connection->Send(EncodeMembershipHello(options_.self, std::move(why), temporary));
  caller.connection->CloseGracefully(kClosingGrace);
}

void MembershipServer::OnMessage(Caller& caller, const Message& message) {
  if (message.type == Type::kHeartbeat) caller.connection->Send(Encode(Message{.type = Type::kHeartbeat}));
  if (tribunal_.has_value()) {
    tribunal_->Hear(caller.rank, message, absl::Now());
  } else {
    OnJoiningMessage(caller, message);
  }
  if (message.type == Type::kLeave) {
    roster_.Leave(caller.rank);
    caller.closing = true;
    caller.connection->CloseGracefully(kClosingGrace);
  }
}

void MembershipServer::OnJoiningMessage(Caller& caller, const Message& message) {
  if (message.type == Type::kLeave) {
    Decide(absl::UnavailableError(
        absl::StrCat(Describe(roster_.identity(caller.rank)), " gave up before all ranks had joined")));
  } else if (message.type == Type::kJoin) {
    roster_.Join(caller.rank, {message.text, message.local_address, message.cpus}, absl::Now() + message.timeout);
    if (roster_.complete() && verdict_.ok()) Welcome();
  }
}

void MembershipServer::Welcome() {
  const std::vector<Member> members = roster_.members();
  tribunal_.emplace(members,
                    Tribunal::Options{.heartbeat_limit = options_.heartbeat_limit,
                                      .grace = options_.grace,
                                      .straggler_warning = options_.straggler_warning},
                    absl::Now());
  Broadcast({.type = Type::kWelcome, .members = members});
}

void MembershipServer::OnClosed(CallerId id, const absl::Status& why) {
  const auto found = callers_.find(id);
  if (found == callers_.end()) return;
  const int rank = found->second.rank;
  if (rank < 0 && !found->second.closing && !why.ok()) {
    TUTTI_LOG_WARNING("membership: dropped a connection from {}: {}", found->second.address,
                      std::string(why.message()));
  }
  const bool is_news = rank >= 0 && !found->second.closing;
  callers_.erase(found);
  if (is_news) LoseRank(rank, why.ok() ? "" : why.message());
  Act();
}

void MembershipServer::LoseRank(int rank, absl::string_view why) {
  if (tribunal_.has_value()) return tribunal_->Lose(rank, why, absl::Now());
  Decide(absl::UnavailableError(absl::StrCat(Describe(roster_.identity(rank)), " died before all ranks had joined",
                                             why.empty() ? "" : ": ", why)));
}

void MembershipServer::Decide(absl::Status verdict) {
  if (!verdict_.ok()) return;
  verdict_ = std::move(verdict);
  TUTTI_LOG_INFO("membership: the group has failed: {}", verdict_.ToString());
  Broadcast({.type = Type::kVerdict, .text = std::string(verdict_.message()), .code = verdict_.code()});
}

void MembershipServer::Broadcast(const Message& message) {
  const std::string payload = Encode(message);
  for (auto& [id, caller] : callers_) {
    if (caller.rank >= 0 && !caller.closing) caller.connection->Send(payload);
  }
}

void MembershipServer::Act() {
  absl::Time next = absl::InfiniteFuture();
  if (tribunal_.has_value()) {
    for (const std::string& warning : tribunal_->TakeWarnings()) {
      TUTTI_LOG_WARNING("{}{}{}", options_.group, options_.group.empty() ? "" : ": ", warning);
    }
    if (!tribunal_->verdict().ok()) Decide(tribunal_->verdict());
    if (verdict_.ok() && tribunal_->query() != asked_) {
      asked_ = tribunal_->query();
      if (asked_ != 0) Broadcast({.type = Type::kQuery, .sequence = asked_});
    }
    next = tribunal_->next();
  } else if (verdict_.ok()) {
    next = roster_.deadline();
  }
  for (const auto& [id, caller] : callers_) {
    if (caller.rank < 0) next = std::min(next, caller.since + kHelloLimit);
  }
  if (done_ != nullptr) FinishIfEmpty();
  if (next == absl::InfiniteFuture() || (timer_.has_value() && timer_time_ <= next)) return;
  if (timer_.has_value()) loop_.Cancel(*timer_);
  timer_time_ = next;
  timer_ = loop_.After(next - absl::Now(), [this] { Tick(); });
}

void MembershipServer::Tick() {
  timer_.reset();
  const absl::Time now = absl::Now();
  DropSlowStrangers(now);
  if (tribunal_.has_value()) {
    tribunal_->Advance(now);
  } else if (now >= roster_.deadline()) {
    Decide(roster_.Missing());
  }
  Act();
}

void MembershipServer::DropSlowStrangers(absl::Time now) {
  for (auto entry = callers_.begin(); entry != callers_.end();) {
    const Caller& caller = entry->second;
    const bool slow = caller.rank < 0 && now >= caller.since + kHelloLimit;
    if (slow && !caller.closing) {
      TUTTI_LOG_WARNING("membership: dropped a connection from {}: it did not say who it is", caller.address);
    }
    entry = slow ? callers_.erase(entry) : std::next(entry);
  }
}

void MembershipServer::Close(absl::Duration patience, absl::AnyInvocable<void()> done) {
  done_ = std::move(done);
  if (verdict_.ok() && patience > absl::ZeroDuration()) {
    patience_timer_ = loop_.After(patience, [this] {
      patience_timer_.reset();
      SayGoodbye();
      Act();
    });
  } else {
    SayGoodbye();
  }
  Act();
}

void MembershipServer::SayGoodbye() {
  if (verdict_.ok()) Broadcast({.type = Type::kLeave});
  for (auto& [id, caller] : callers_) {
    if (caller.rank < 0 || caller.closing) continue;
    caller.closing = true;
    caller.connection->CloseGracefully(kClosingGrace);
  }
}

void MembershipServer::FinishIfEmpty() {
  const bool only_strangers = std::all_of(callers_.begin(), callers_.end(), [](const auto& entry) {
    return entry.second.rank < 0 && !entry.second.closing;
  });
  if (!only_strangers || done_called_) return;
  done_called_ = true;
  done_();
}

}  // namespace tutti
