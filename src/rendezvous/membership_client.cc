#include "src/rendezvous/membership_client.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "src/base/log.h"
#include "src/rendezvous/come_again.h"
#include "src/rendezvous/verdict_text.h"

namespace tutti {
namespace {

using Message = MembershipMessage;
using Type = MembershipMessage::Type;

std::string PeerText(int fd) {
  const absl::StatusOr<SocketAddress> peer = PeerAddress(fd);
  return peer.ok() ? peer->ToString() : "an unknown address";
}

OperationNote NoteOf(const Journal::Entry& entry) {
  const OperationDescriptor& descriptor = entry.descriptor;
  return {.sequence = entry.sequence,
          .text = ToString(descriptor),
          .details = absl::StrCat("algorithm ", Name(descriptor.algorithm), ", segments of ", descriptor.segment_bytes,
                                  " bytes, divisor ", absl::StrFormat("%.17g", descriptor.divisor)),
          .fingerprint = Fingerprint(descriptor),
          .done = entry.done};
}

}  // namespace

MembershipClient::MembershipClient(EventLoop& loop, Fd socket, const MembershipOptions& options, const Journal& journal,
                                   Callbacks callbacks)
    : loop_(loop),
      options_(options),
      journal_(journal),
      callbacks_(std::move(callbacks)),
      address_(PeerText(socket.get())) {
  connection_ = std::make_unique<FrameConnection>(loop_, std::move(socket),
                                                  FrameConnection::Limits{.frame_bytes = kHelloBytesMax},
                                                  FrameConnection::Callbacks{
                                                      .frame = [this](std::string payload) { OnFrame(payload); },
                                                      .closed = [this](absl::Status why) { OnClosed(why); },
                                                  });
  connection_->Send(EncodeMembershipHello(options_.self));
  connection_->Send(Encode(Message{.type = Type::kJoin,
                                   .text = options_.data_address,
                                   .local_address = options_.local_address,
                                   .cpus = options_.cpus,
                                   .timeout = std::max(options_.deadline - absl::Now(), absl::Milliseconds(1))}));
}

MembershipClient::~MembershipClient() {
  if (beat_timer_.has_value()) loop_.Cancel(*beat_timer_);
}

void MembershipClient::OnFrame(const std::string& payload) {
  heard_ = absl::Now();
  if (!server_.has_value()) return OnHello(payload);
  const absl::StatusOr<Message> message = DecodeMembershipMessage(payload, options_.self);
  if (!message.ok()) {
    connection_.reset();
    return EndWith(absl::InternalError(
        absl::StrCat(Describe(*server_), " at ", address_, " sent what is no message: ", message.status().message())));
  }
  OnMessage(*message);
}

void MembershipClient::OnHello(const std::string& payload) {
  const absl::StatusOr<Hello> hello = DecodeHello(payload);
  absl::Status status = hello.status();
  if (status.ok() && !hello->refusal.empty()) {
    const std::string refused =
        absl::StrCat("refused by ", Describe(hello->from), " at ", address_, ": ", hello->refusal);
    status = hello->temporary ? ComeAgain(refused) : absl::FailedPreconditionError(refused);
  }
  if (status.ok()) status = CheckSameJob(options_.self, hello->from);
  if (!status.ok()) {
    connection_.reset();
    return EndWith(std::move(status));
  }
  server_ = hello->from;
  connection_->set_limits({.frame_bytes = WelcomeBytesMax(options_.self.world_size)});
}

void MembershipClient::OnMessage(const Message& message) {
  switch (message.type) {
    case Type::kWelcome:
      return OnWelcome(message);
    case Type::kNotice:
      TUTTI_LOG_WARNING("membership: {}", message.text);
      return;
    case Type::kQuery:
      return Answer(message.sequence);
    case Type::kVerdict:
      return EndWith(absl::Status(message.code, message.text));
    case Type::kLeave:
      server_left_ = true;
      return;
    default:
      return;
  }
}

void MembershipClient::OnWelcome(const Message& message) {
  if (joined_called_) return;
  for (const Member& member : message.members) members_.push_back(member.identity);
  joined_called_ = true;
  last_beat_ = absl::Now();
  Beat();
  callbacks_.joined(message.members);
}

void MembershipClient::OnClosed(const absl::Status& why) {
  connection_.reset();
  if (left_ != nullptr) return std::exchange(left_, nullptr)();
  if (server_left_) return;
  const std::string reason = why.ok() ? "" : absl::StrCat(" (", why.message(), ")");
  if (!server_.has_value()) {
    return EndWith(ComeAgain(
        absl::StrCat("the membership server of rank 0 at ", address_, " closed the connection at once", reason)));
  }
  EndWith(absl::UnavailableError(absl::StrCat(Describe(*server_), " died: its connection ended without a goodbye",
                                              reason, joined_called_ ? "" : ", before all ranks had joined")));
}

// The membership has failed: by verdict, or for want of a server.
void MembershipClient::EndWith(absl::Status why) {
  if (!joined_called_) {
    joined_called_ = true;
    verdict_called_ = true;
    return callbacks_.joined(std::move(why));
  }
  if (std::exchange(verdict_called_, true)) return;
  callbacks_.verdict(std::move(why));
}

std::optional<OperationNote> MembershipClient::Latest() const {
  const std::optional<Journal::Entry> entry = journal_.Latest();
  if (!entry.has_value()) return std::nullopt;
  return NoteOf(*entry);
}

void MembershipClient::Answer(uint32_t sequence) {
  Message answer{.type = Type::kAnswer, .sequence = sequence, .latest = Latest()};
  if (const std::optional<Journal::Entry> entry = journal_.Find(sequence)) answer.operation = NoteOf(*entry);
  connection_->Send(Encode(answer));
}

void MembershipClient::Beat() {
  beat_timer_.reset();
  if (connection_ == nullptr || server_left_ || verdict_called_) return;
  const absl::Time now = absl::Now();
  // While this process was stopped, messages have piled up unread.
  if (now - last_beat_ > options_.heartbeat_limit / 8 + options_.heartbeat_interval) heard_ = now;
  last_beat_ = now;
  if (now - heard_ > options_.heartbeat_limit) {
    return EndWith(SilenceVerdict({.identity = *server_, .heard = heard_}, now));
  }
  Message beat{.type = Type::kHeartbeat, .latest = Latest()};
  for (const Journal::Entry& entry : journal_.Recent(kHistoryPointsMax)) {
    if (entry.sequence > told_) beat.recent.push_back({entry.sequence, entry.history});
  }
  if (!beat.recent.empty()) told_ = beat.recent.back().sequence;
  connection_->Send(Encode(beat));
  beat_timer_ = loop_.After(options_.heartbeat_interval, [this] { Beat(); });
}

void MembershipClient::Report(Message report) {
  if (connection_ != nullptr && !server_left_) return connection_->Send(Encode(report));
  EndWith(LocalVerdict(report));
}

absl::Status MembershipClient::LocalVerdict(const Message& report) const {
  const RankView self{.identity = options_.self, .latest = Latest()};
  const std::string context =
      absl::StrCat("; nobody else was asked, because ", Describe(*server_), " has left the group");
  switch (report.type) {
    case Type::kPeerLost: {
      const RankView peer{.identity = members_[static_cast<size_t>(report.peer)]};
      if (report.peer == 0) return LeftVerdict(peer, self, report.text);
      return absl::UnavailableError(
          absl::StrCat(Describe(self.identity), " cannot reach ", Describe(peer.identity), ": ", report.text, context));
    }
    case Type::kMismatch:
      return absl::FailedPreconditionError(absl::StrCat("mismatch at operation ", report.sequence, context));
    case Type::kTimeout:
      return absl::DeadlineExceededError(absl::StrCat(Describe(self.identity), ": ", report.text, context));
    default:
      return AbortVerdict(self, report.text);
  }
}

void MembershipClient::Leave(absl::Duration patience, absl::AnyInvocable<void()> done) {
  joined_called_ = verdict_called_ = true;  // nobody listens any more
  if (connection_ == nullptr) return done();
  left_ = std::move(done);
  connection_->Send(Encode(Message{.type = Type::kLeave}));
  connection_->CloseGracefully(patience);
}

}  // namespace tutti
