// Strict parsers of settings. The message of an error is the rule that the text breaks, and nothing else: the caller
// knows where the text came from.
//
// One rule for all numbers: decimal digits and nothing else; no sign, blank, underscore or prefix. Leading zeros are
// allowed and mean nothing.

#ifndef TUTTI_SRC_RENDEZVOUS_PARSE_H_
#define TUTTI_SRC_RENDEZVOUS_PARSE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "src/base/socket.h"
#include "src/rendezvous/environment.h"

namespace tutti {

// In quotes, control characters and non-ASCII bytes escaped, cut where it is very long.
std::string Quoted(absl::string_view text);

// `what` begins the rule: "a rank", "a port".
absl::StatusOr<int64_t> ParseDecimal(absl::string_view text, absl::string_view what, int64_t least, int64_t most);

// "90" seconds, or "90s", "1.5h", "1m30s"; more than nothing, at most a year.
absl::StatusOr<absl::Duration> ParseTimeout(absl::string_view text);
absl::Status CheckTimeout(absl::Duration timeout);

// "first-last".
absl::StatusOr<PortRange> ParsePortRange(absl::string_view text);

// A name or a numeric address, IPv6 with or without brackets, which are dropped.
absl::StatusOr<std::string> ParseHost(absl::string_view text);

// Letters, digits and punctuation, up to `most` bytes.
absl::StatusOr<std::string> ParseLabel(absl::string_view text, size_t most);

// Where ranks meet, by URL.
struct InitUrl {
  bool from_environment = false;  // env://
  Scheme scheme = Scheme::kTcp;
  std::string host, port;                       // tcp://; as written, the host without its brackets
  std::string path;                             // file://
  std::optional<std::string> rank, world_size;  // as written
};
absl::StatusOr<InitUrl> ParseInitUrl(absl::string_view url);

}  // namespace tutti

#endif  // TUTTI_SRC_RENDEZVOUS_PARSE_H_
