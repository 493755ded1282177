// What the ranks and rank 0's membership server tell each other, after the hellos: one JSON object a frame.

#ifndef TUTTI_SRC_RENDEZVOUS_MEMBERSHIP_MESSAGES_H_
#define TUTTI_SRC_RENDEZVOUS_MEMBERSHIP_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "src/identity/hello.h"
#include "src/rendezvous/membership.h"

namespace tutti {

// What a rank tells about one of its operations.
struct OperationNote {
  uint32_t sequence = 0;
  std::string text;     // "all-reduce of 4 float32, sum"
  std::string details;  // what the text leaves out but the ranks must agree on
  uint64_t fingerprint = 0;
  bool done = false;
};

// A rank's history up to an operation; equal on all ranks.
struct HistoryPoint {
  uint32_t sequence = 0;
  uint64_t history = 0;
};

struct MembershipMessage {
  enum class Type : uint8_t {  // and the fields that count, besides
    kJoin,                     // text: data address; local_address; cpus; timeout
    kWelcome,                  // members, by rank
    kNotice,                   // text: for the log
    kHeartbeat,                // latest, recent: to the server. Answered by an empty one.
    kQuery,                    // sequence
    kAnswer,                   // sequence; operation, if there is one of this number; latest
    kPeerLost,                 // peer, text: why
    kMismatch,                 // sequence
    kTimeout,                  // sequence, text: the rank's own view
    kAbort,                    // text
    kVerdict,                  // code, text
    kLeave,                    // no failure: the sender closes
  };
  static constexpr int kTypes = 12;

  Type type = Type::kLeave;
  std::string text = {};
  std::string local_address = {};
  CpuSet cpus = {};
  absl::Duration timeout = {};
  int peer = 0;
  absl::StatusCode code = absl::StatusCode::kOk;
  uint32_t sequence = 0;
  std::optional<OperationNote> operation = {}, latest = {};
  std::vector<HistoryPoint> recent = {};  // ascending
  std::vector<Member> members = {};       // of each rank what is its own: host name and id, boot id, pid,
                                          // addresses, processors
};

inline constexpr size_t kHistoryPointsMax = 32;
// Of every message but a welcome.
inline constexpr size_t kMembershipMessageBytesMax = size_t{64} << 10;
size_t WelcomeBytesMax(int world_size);

// The first frame in each direction; a refusal closes.
std::string EncodeMembershipHello(const Identity& self, std::string refusal = "", bool temporary = false);

// Texts are cut to a few kilobytes.
std::string Encode(const MembershipMessage& message);
// `self`: whoever decodes; the members of a welcome share what all ranks of a job share. kInvalidArgument for anything
// that is no message.
absl::StatusOr<MembershipMessage> DecodeMembershipMessage(absl::string_view payload, const Identity& self);

}  // namespace tutti

#endif  // TUTTI_SRC_RENDEZVOUS_MEMBERSHIP_MESSAGES_H_
