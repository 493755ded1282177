#include "src/rendezvous/tribunal.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

using Type = MembershipMessage::Type;

constexpr size_t kHistoriesMax = 4096;

}  // namespace

Tribunal::Tribunal(const std::vector<Member>& members, Options options, absl::Time now)
    : options_(options), stragglers_(options.straggler_warning), due_(now + options.heartbeat_limit / 4) {
  for (const Member& member : members) {
    RankView view;
    view.identity = member.identity;
    view.heard = now;
    ranks_.push_back(std::move(view));
  }
}

void Tribunal::Hear(int rank, const MembershipMessage& message, absl::Time now) {
  NoteTime(now);
  view(rank).heard = now;
  switch (message.type) {
    case Type::kHeartbeat:
      return HearHeartbeat(rank, message, now);
    case Type::kAnswer:
      return HearAnswer(rank, message, now);
    case Type::kLeave:
      return HearLeave(rank);
    case Type::kAbort:
      if (case_.has_value() && case_->kind != Kind::kPeerLost) return;
      return Pronounce(AbortVerdict(view(rank), message.text));
    case Type::kPeerLost:
      if (view(message.peer).state == RankView::State::kLeft) {
        return Pronounce(LeftVerdict(view(message.peer), view(rank), message.text));
      }
      return Open({.kind = Kind::kPeerLost,
                   .reporter = rank,
                   .peer = message.peer,
                   .sequence = 0,
                   .detail = message.text,
                   .deadline = now + options_.grace},
                  now);
    case Type::kTimeout:
      return Open({.kind = Kind::kTimeout,
                   .reporter = rank,
                   .peer = 0,
                   .sequence = message.sequence,
                   .detail = message.text,
                   .deadline = now + options_.grace},
                  now);
    case Type::kMismatch:
      return Open({.kind = Kind::kMismatch,
                   .reporter = rank,
                   .peer = 0,
                   .sequence = message.sequence,
                   .detail = "",
                   .deadline = now + options_.grace},
                  now);
    default:
      return;
  }
}

void Tribunal::HearHeartbeat(int rank, const MembershipMessage& message, absl::Time now) {
  if (message.latest.has_value()) view(rank).latest = message.latest;
  for (const HistoryPoint& point : message.recent) {
    const auto [entry, is_new] = histories_.emplace(point.sequence, point.history);
    if (!is_new && entry->second != point.history) {
      Open({.kind = Kind::kMismatch,
            .reporter = rank,
            .peer = 0,
            .sequence = point.sequence,
            .detail = "",
            .deadline = now + options_.grace},
           now);
      break;
    }
  }
  while (histories_.size() > kHistoriesMax) histories_.erase(histories_.begin());
  if (!verdict_.ok() || case_.has_value()) return;
  if (std::optional<std::string> warning = stragglers_.Look(ranks_, now)) warnings_.push_back(*std::move(warning));
}

void Tribunal::HearAnswer(int rank, const MembershipMessage& message, absl::Time now) {
  if (message.latest.has_value()) view(rank).latest = message.latest;
  if (!case_.has_value() || message.sequence != case_->sequence) return;
  view(rank).answered = true;
  view(rank).operation = message.operation;
  if (AllAnswered()) Close(now);
}

void Tribunal::HearLeave(int rank) {
  view(rank).state = RankView::State::kLeft;
  if (!case_.has_value() || case_->kind != Kind::kPeerLost) return;
  if (case_->peer == rank) return Pronounce(LeftVerdict(view(rank), view(case_->reporter), case_->detail));
  // It needs nobody any more: two ranks that leave at the same time are no failure.
  if (case_->reporter == rank) case_.reset();
}

void Tribunal::Lose(int rank, absl::string_view why, absl::Time now) {
  NoteTime(now);
  if (view(rank).state != RankView::State::kPresent) return;
  view(rank).state = RankView::State::kLost;
  if (case_.has_value() && (case_->kind == Kind::kMismatch || case_->reporter == rank)) {
    if (case_->kind != Kind::kPeerLost && AllAnswered()) Close(now);
    return;
  }
  Pronounce(DeathVerdict(view(rank), why));
}

void Tribunal::Advance(absl::Time now) {
  NoteTime(now);
  if (!verdict_.ok()) return;
  if (case_.has_value() && now >= case_->deadline) return Close(now);
  for (const RankView& rank : ranks_) {
    if (rank.state == RankView::State::kPresent && now - rank.heard > options_.heartbeat_limit) {
      return Pronounce(SilenceVerdict(rank, now));
    }
  }
}

absl::Time Tribunal::next() const {
  if (!verdict_.ok()) return absl::InfiniteFuture();
  return case_.has_value() ? std::min(case_->deadline, due_) : due_;
}

// While this process was stopped, messages have piled up unread: nobody was silent then.
void Tribunal::NoteTime(absl::Time now) {
  const absl::Duration stopped = now - next();
  if (stopped > options_.grace) {
    for (RankView& rank : ranks_) rank.heard = std::min(rank.heard + stopped, now);
    if (case_.has_value()) case_->deadline = now + options_.grace;
  }
  due_ = now + options_.heartbeat_limit / 4;
}

void Tribunal::Open(Case opened, absl::Time now) {
  if (!verdict_.ok() || (case_.has_value() && case_->kind >= opened.kind)) return;
  if (query() != opened.sequence) {
    for (RankView& rank : ranks_) {
      rank.answered = false;
      rank.operation.reset();
    }
  }
  case_ = std::move(opened);
  if (case_->sequence != 0 && AllAnswered()) Close(now);
}

bool Tribunal::AllAnswered() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const RankView& rank) { return rank.answered || rank.state != RankView::State::kPresent; });
}

void Tribunal::Close(absl::Time now) {
  const RankView& reporter = view(case_->reporter);
  switch (case_->kind) {
    case Kind::kPeerLost:
      return Pronounce(UnreachableVerdict(view(case_->peer), reporter, case_->detail, now));
    case Kind::kTimeout:
      return Pronounce(TimeoutVerdict(ranks_, reporter, case_->sequence, case_->detail, now));
    case Kind::kMismatch:
      return Pronounce(MismatchVerdict(ranks_, case_->sequence));
  }
}

void Tribunal::Pronounce(absl::Status verdict) {
  if (verdict_.ok()) verdict_ = std::move(verdict);
  case_.reset();
}

}  // namespace tutti
