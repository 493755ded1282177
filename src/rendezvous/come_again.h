// A temporary refusal: the caller has reached rank 0's last group, which is about to end, and is to try again from the
// beginning to find the next one.

#ifndef TUTTI_SRC_RENDEZVOUS_COME_AGAIN_H_
#define TUTTI_SRC_RENDEZVOUS_COME_AGAIN_H_

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace tutti {

inline constexpr absl::string_view kComeAgainPayload = "tutti/come-again";

// kUnavailable, with a mark.
inline absl::Status ComeAgain(absl::string_view why) {
  absl::Status status = absl::UnavailableError(why);
  status.SetPayload(kComeAgainPayload, absl::Cord());
  return status;
}

inline bool IsComeAgain(const absl::Status& status) { return status.GetPayload(kComeAgainPayload).has_value(); }

}  // namespace tutti

#endif  // TUTTI_SRC_RENDEZVOUS_COME_AGAIN_H_
