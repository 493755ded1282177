#include "src/rendezvous/parse.h"

#include <arpa/inet.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "src/base/status_macros.h"

namespace tutti {
namespace {

constexpr size_t kQuotedBytesMax = 120;
constexpr size_t kHostBytesMax = 253;
constexpr absl::Duration kTimeoutMax = absl::Hours(24 * 365);

bool IsDigits(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

bool IsIpv4(absl::string_view text) {
  in_addr address;
  return inet_pton(AF_INET, std::string(text).c_str(), &address) == 1;
}

bool IsIpv6(absl::string_view text) {
  in6_addr address;
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits('%', 1));
  return inet_pton(AF_INET6, std::string(parts.first).c_str(), &address) == 1;
}

// Resolvers take "10.1", "0x7f.1" or "2130706433" for addresses; people do not. The last label decides.
bool LooksLikeNumber(absl::string_view host) {
  const absl::string_view last = host.substr(host.rfind('.') == host.npos ? 0 : host.rfind('.') + 1);
  return IsDigits(last) || absl::StartsWithIgnoreCase(last, "0x");
}

absl::Status Rule(absl::string_view rule) { return absl::InvalidArgumentError(rule); }

absl::Status ParseParameters(absl::string_view text, InitUrl& url) {
  for (absl::string_view parameter : absl::StrSplit(text, '&')) {
    const std::pair<absl::string_view, absl::string_view> pair = absl::StrSplit(parameter, absl::MaxSplits('=', 1));
    std::optional<std::string>* field = pair.first == "rank"         ? &url.rank
                                        : pair.first == "world_size" ? &url.world_size
                                                                     : nullptr;
    if (field == nullptr) {
      return Rule(absl::StrCat("the parameter ", Quoted(pair.first), " is unknown; there are rank and world_size"));
    }
    if (field->has_value()) return Rule(absl::StrCat("the parameter ", Quoted(pair.first), " is given twice"));
    *field = std::string(pair.second);
  }
  return absl::OkStatus();
}

absl::Status ParseAuthority(absl::string_view text, InitUrl& url) {
  const size_t colon = text.rfind(':');
  if (colon == text.npos || absl::EndsWith(text, "]")) return Rule("tcp:// needs a port: tcp://host:port");
  absl::string_view host = text.substr(0, colon);
  if (absl::StrContains(host, ':') && !absl::StartsWith(host, "[")) {
    return Rule("the host and the port cannot be told apart: an IPv6 address needs brackets, tcp://[::1]:29500");
  }
  url.host = std::string(host);
  url.port = std::string(text.substr(colon + 1));
  return absl::OkStatus();
}

}  // namespace

std::string Quoted(absl::string_view text) {
  if (text.size() <= kQuotedBytesMax) return absl::StrCat("\"", absl::CHexEscape(text), "\"");
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kQuotedBytesMax)), "\"... (", text.size(), " bytes)");
}

absl::StatusOr<int64_t> ParseDecimal(absl::string_view text, absl::string_view what, int64_t least, int64_t most) {
  int64_t value = 0;
  if (!IsDigits(text) || !absl::SimpleAtoi(text, &value) || value < least || value > most) {
    return Rule(absl::StrCat("must be ", what, ", ", least, " to ", most, ", in decimal digits only"));
  }
  return value;
}

absl::Status CheckTimeout(absl::Duration timeout) {
  if (timeout > absl::ZeroDuration() && timeout <= kTimeoutMax) return absl::OkStatus();
  return Rule("must be more than nothing and at most a year");
}

absl::StatusOr<absl::Duration> ParseTimeout(absl::string_view text) {
  absl::Duration timeout;
  int64_t seconds = 0;
  if (IsDigits(text) && absl::SimpleAtoi(text, &seconds)) {
    timeout = absl::Seconds(seconds);
  } else if (text.empty() || !absl::ascii_isdigit(text[0]) || !absl::ParseDuration(text, &timeout)) {
    return Rule("must be a time: seconds in decimal digits, or with units such as 30s, 5m, 1h30m");
  }
  TUTTI_RETURN_IF_ERROR(CheckTimeout(timeout));
  return timeout;
}

absl::StatusOr<PortRange> ParsePortRange(absl::string_view text) {
  const std::vector<absl::string_view> ends = absl::StrSplit(text, '-');
  if (ends.size() == 2) {
    const absl::StatusOr<int64_t> first = ParseDecimal(ends[0], "a port", 1, 65535);
    const absl::StatusOr<int64_t> last = ParseDecimal(ends[1], "a port", 1, 65535);
    if (first.ok() && last.ok() && *first <= *last) {
      return PortRange{static_cast<uint16_t>(*first), static_cast<uint16_t>(*last)};
    }
  }
  return Rule("must be a range of ports, first-last, such as 40000-40100, each 1 to 65535 in decimal digits only");
}

absl::StatusOr<std::string> ParseHost(absl::string_view text) {
  if (absl::StripAsciiWhitespace(text).empty()) return Rule("must not be empty");
  if (absl::StrContains(text, "://")) return Rule("must be a host only, without a scheme");
  if (absl::ConsumePrefix(&text, "[")) {
    if (!absl::ConsumeSuffix(&text, "]") || !IsIpv6(text)) {
      return Rule("must be a host; in brackets, an IPv6 address only, and nothing after them");
    }
    return std::string(text);
  }
  if (IsIpv4(text) || IsIpv6(text)) return std::string(text);
  if (absl::StrContains(text, ':')) {
    return Rule("must be a host only, without a port, or an IPv6 address");
  }
  const auto in_name = [](char c) { return absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_'; };
  if (text.size() > kHostBytesMax || !std::all_of(text.begin(), text.end(), in_name)) {
    return Rule("must be a host name (letters, digits, '-', '.', '_') or an address");
  }
  if (LooksLikeNumber(text)) return Rule("is neither an IPv4 address (four numbers from 0 to 255) nor a name");
  return std::string(text);
}

absl::StatusOr<std::string> ParseLabel(absl::string_view text, size_t most) {
  if (text.empty() || text.size() > most || !std::all_of(text.begin(), text.end(), absl::ascii_isgraph)) {
    return Rule(absl::StrCat("must have 1 to ", most, " ASCII characters, none of them a blank"));
  }
  return std::string(text);
}

absl::StatusOr<InitUrl> ParseInitUrl(absl::string_view text) {
  InitUrl url;
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits('?', 1));
  absl::string_view rest = parts.first;
  if (absl::ConsumePrefix(&rest, "env://")) {
    url.from_environment = true;
    if (!rest.empty()) return Rule("env:// takes no address; use tcp://host:port");
  } else if (absl::ConsumePrefix(&rest, "tcp://")) {
    TUTTI_RETURN_IF_ERROR(ParseAuthority(rest, url));
  } else if (absl::ConsumePrefix(&rest, "file://")) {
    url.scheme = Scheme::kFile;
    if (!absl::StartsWith(rest, "/") || rest.size() == 1) {
      return Rule("file:// needs an absolute path, so three slashes: file:///tmp/meeting");
    }
    if (absl::StrContains(rest, '\0')) return Rule("the path must not contain a NUL");
    url.path = std::string(rest);
  } else {
    return Rule("must begin with env://, tcp:// or file://");
  }
  if (parts.first.size() != text.size()) TUTTI_RETURN_IF_ERROR(ParseParameters(parts.second, url));
  return url;
}

}  // namespace tutti
