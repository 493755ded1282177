// The words of the verdicts. Pure.

#ifndef TUTTI_SRC_RENDEZVOUS_VERDICT_TEXT_H_
#define TUTTI_SRC_RENDEZVOUS_VERDICT_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "src/identity/hello.h"
#include "src/rendezvous/membership_messages.h"

namespace tutti {

// What is known about one rank.
struct RankView {
  enum class State : uint8_t { kPresent, kLeft, kLost };

  Identity identity = {};
  State state = State::kPresent;
  absl::Time heard = {};                        // when it last sent anything
  std::optional<OperationNote> latest = {};     // as of the last heartbeat or answer
  bool answered = false;                        // the question for one operation,
  std::optional<OperationNote> operation = {};  // with this; none: no such operation, or no longer recorded
};

// "rank 2", "ranks 0, 1, 5-9"; "no ranks". Bounded: "ranks 0, 2, 4, ... and 968 more".
std::string RankList(const std::vector<int>& ascending_ranks);

// kUnavailable
absl::Status DeathVerdict(const RankView& dead, absl::string_view why);
absl::Status SilenceVerdict(const RankView& silent, absl::Time now);
absl::Status LeftVerdict(const RankView& left, const RankView& reporter, absl::string_view why);
absl::Status UnreachableVerdict(const RankView& peer, const RankView& reporter, absl::string_view why, absl::Time now);
// kAborted
absl::Status AbortVerdict(const RankView& reporter, absl::string_view message);
// kFailedPrecondition
absl::Status MismatchVerdict(absl::Span<const RankView> ranks, uint32_t sequence);
// kDeadlineExceeded, naming all ranks that have not arrived; but where the answers tell of a mismatch, that.
absl::Status TimeoutVerdict(absl::Span<const RankView> ranks, const RankView& reporter, uint32_t sequence,
                            absl::string_view detail, absl::Time now);

// For the log, while nothing has failed yet: who has not called the operation. By what the heartbeats tell.
std::string StragglerWarning(absl::Span<const RankView> ranks, uint32_t sequence, absl::Duration waited,
                             absl::Time now);

}  // namespace tutti

#endif  // TUTTI_SRC_RENDEZVOUS_VERDICT_TEXT_H_
