// Tribunal: from evidence about the ranks to one verdict. Pure: no I/O; time is passed in.
//
// What is certain is pronounced at once: a connection that ended without a goodbye (dead), an abort, silence beyond the
// limit. What needs the others' view opens a *case*, which gathers evidence for `grace` at most:
//
//   peer lost  the verdict is that the peer died or left, if its own connection tells so meanwhile; else that the
//              reporter cannot reach it
//   timeout    all ranks are asked for the operation; those that have not arrived are named
//   mismatch   all ranks are asked for the operation; they are grouped by what they called
//
// A later case takes the place of a weaker one: peer lost < timeout < mismatch, because ranks that have found a
// mismatch or given up waiting close their connections and are then reported lost. For the same reason the death of the
// rank that opened the case, and in case of a mismatch of any rank, does not decide it: programs exit on errors.

#ifndef TUTTI_SRC_RENDEZVOUS_TRIBUNAL_H_
#define TUTTI_SRC_RENDEZVOUS_TRIBUNAL_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "src/identity/hello.h"
#include "src/rendezvous/membership_messages.h"
#include "src/rendezvous/straggler_watch.h"
#include "src/rendezvous/verdict_text.h"

namespace tutti {

class Tribunal {
 public:
  struct Options {
    absl::Duration heartbeat_limit;
    absl::Duration grace;
    absl::Duration straggler_warning = absl::InfiniteDuration();
  };
  Tribunal(const std::vector<Member>& members, Options options, absl::Time now);

  // Something has come from `rank`: a report, an answer, a heartbeat. kLeave is one of them. Others than those that a
  // rank sends to the server are ignored.
  void Hear(int rank, const MembershipMessage& message, absl::Time now);
  // Its connection has ended, without a goodbye.
  void Lose(int rank, absl::string_view why, absl::Time now);
  // Time has passed. To be called at next(), or earlier.
  void Advance(absl::Time now);

  absl::Time next() const;
  // The operation that all ranks are to be asked for; 0: none.
  uint32_t query() const { return case_.has_value() ? case_->sequence : 0; }
  // Lines for the log that have come up since the last call.
  std::vector<std::string> TakeWarnings() { return std::exchange(warnings_, {}); }
  // OK until the first one, which is final.
  const absl::Status& verdict() const { return verdict_; }

 private:
  enum class Kind : uint8_t { kPeerLost, kTimeout, kMismatch };  // from weak to strong
  struct Case {
    Kind kind;
    int reporter;
    int peer;            // kPeerLost
    uint32_t sequence;   // else; 0: no collective
    std::string detail;  // what the reporter says
    absl::Time deadline;
  };

  void NoteTime(absl::Time now);
  void HearHeartbeat(int rank, const MembershipMessage& message, absl::Time now);
  void HearAnswer(int rank, const MembershipMessage& message, absl::Time now);
  void HearLeave(int rank);
  void Open(Case opened, absl::Time now);
  bool AllAnswered() const;
  void Close(absl::Time now);
  void Pronounce(absl::Status verdict);
  RankView& view(int rank) { return ranks_[static_cast<size_t>(rank)]; }

  const Options options_;
  std::vector<RankView> ranks_;
  std::map<uint32_t, uint64_t> histories_;  // of the latest operations, by sequence number
  StragglerWatch stragglers_;
  std::vector<std::string> warnings_;
  std::optional<Case> case_;
  absl::Status verdict_;
  absl::Time due_;  // when Advance is called at the latest, if this process runs
};

}  // namespace tutti

#endif  // TUTTI_SRC_RENDEZVOUS_TRIBUNAL_H_
