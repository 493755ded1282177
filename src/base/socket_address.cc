#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "src/base/socket.h"

namespace tutti {
namespace {

bool IsLinkLocal(const in6_addr& address) {
  return IN6_IS_ADDR_LINKLOCAL(&address) || IN6_IS_ADDR_MC_LINKLOCAL(&address);
}

std::optional<uint32_t> ParseDecimal(absl::string_view text, uint32_t limit) {
  uint32_t value = 0;
  // SimpleAtoi by itself would take signs and blanks.
  if (text.empty() || !std::all_of(text.begin(), text.end(), absl::ascii_isdigit)) return std::nullopt;
  if (!absl::SimpleAtoi(text, &value) || value > limit) return std::nullopt;
  return value;
}

std::optional<uint32_t> ParseScope(absl::string_view text) {
  if (uint32_t index = ::if_nametoindex(std::string(text).c_str()); index != 0) return index;
  return ParseDecimal(text, UINT32_MAX);
}

std::optional<SocketAddress> ParseV4(absl::string_view host, uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (::inet_pton(AF_INET, std::string(host).c_str(), &address.sin_addr) != 1) return std::nullopt;
  return SocketAddress(reinterpret_cast<const sockaddr*>(&address), sizeof(address));
}

std::optional<SocketAddress> ParseV6(absl::string_view host, uint16_t port) {
  sockaddr_in6 address = {};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  const size_t percent = host.find('%');
  if (::inet_pton(AF_INET6, std::string(host.substr(0, percent)).c_str(), &address.sin6_addr) != 1) return std::nullopt;
  if (percent != absl::string_view::npos) {
    std::optional<uint32_t> scope = ParseScope(host.substr(percent + 1));
    if (!scope || !IsLinkLocal(address.sin6_addr)) return std::nullopt;
    address.sin6_scope_id = *scope;
  }
  return SocketAddress(reinterpret_cast<const sockaddr*>(&address), sizeof(address));
}

absl::Status ParseError(absl::string_view text, absl::string_view reason) {
  return absl::InvalidArgumentError(absl::StrCat("\"", absl::CHexEscape(text), "\" is no address: ", reason));
}

}  // namespace

SocketAddress::SocketAddress() { std::memset(&storage_, 0, sizeof(storage_)); }

SocketAddress::SocketAddress(const sockaddr* address, socklen_t length) : SocketAddress() {
  length_ = std::min<socklen_t>(length, sizeof(storage_));
  std::memcpy(&storage_, address, length_);
}

absl::StatusOr<SocketAddress> SocketAddress::Parse(absl::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos) return ParseError(text, "expected host:port");
  absl::string_view host = text.substr(0, colon);
  const std::optional<uint32_t> port = ParseDecimal(text.substr(colon + 1), 65535);
  if (host.find(':') != absl::string_view::npos && host.front() != '[') {
    return ParseError(text, "an IPv6 address needs brackets, as in [::1]:29500, to tell it from its port");
  }
  if (!port) return ParseError(text, "the port is not a number from 0 to 65535");
  std::optional<SocketAddress> address;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    address = ParseV6(host.substr(1, host.size() - 2), static_cast<uint16_t>(*port));
  } else {
    address = ParseV4(host, static_cast<uint16_t>(*port));
  }
  if (!address) return ParseError(text, "the host is no numeric IPv4 address, or IPv6 address in brackets");
  return *address;
}

uint16_t SocketAddress::port() const {
  if (family() == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port);
  if (family() == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_port);
  return 0;
}

SocketAddress SocketAddress::WithPort(uint16_t port) const {
  SocketAddress result = *this;
  if (family() == AF_INET) reinterpret_cast<sockaddr_in*>(&result.storage_)->sin_port = htons(port);
  if (family() == AF_INET6) reinterpret_cast<sockaddr_in6*>(&result.storage_)->sin6_port = htons(port);
  return result;
}

bool SocketAddress::IsLoopback() const {
  if (family() == AF_INET) {
    return ntohl(reinterpret_cast<const sockaddr_in*>(&storage_)->sin_addr.s_addr) >> 24 == 127;
  }
  if (family() != AF_INET6) return false;
  const in6_addr& address = reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&address) || (IN6_IS_ADDR_V4MAPPED(&address) && address.s6_addr[12] == 127);
}

std::string SocketAddress::Host() const {
  std::array<char, INET6_ADDRSTRLEN> text = {};
  if (family() == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage_)->sin_addr, text.data(), text.size());
    return text.data();
  }
  if (family() != AF_INET6) return family() == AF_UNIX ? "local" : "none";
  const auto& address = *reinterpret_cast<const sockaddr_in6*>(&storage_);
  ::inet_ntop(AF_INET6, &address.sin6_addr, text.data(), text.size());
  if (address.sin6_scope_id == 0) return text.data();
  std::array<char, IF_NAMESIZE> interface = {};
  if (::if_indextoname(address.sin6_scope_id, interface.data()) == nullptr) {
    return absl::StrCat(text.data(), "%", address.sin6_scope_id);
  }
  return absl::StrCat(text.data(), "%", interface.data());
}

std::string SocketAddress::ToString() const {
  if (family() == AF_INET) return absl::StrCat(Host(), ":", port());
  if (family() == AF_INET6) return absl::StrCat("[", Host(), "]:", port());
  return Host();
}

absl::StatusOr<std::vector<SocketAddress>> Resolve(absl::string_view host, uint16_t port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(std::string(host).c_str(), nullptr, &hints, &list);
  if (error != 0) {
    return absl::UnavailableError(absl::StrCat("cannot resolve \"", absl::CHexEscape(host), "\": ",
                                               error == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(error)));
  }
  std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, ::freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6) continue;
    addresses.push_back(SocketAddress(entry->ai_addr, entry->ai_addrlen).WithPort(port));
  }
  if (addresses.empty()) {
    return absl::UnavailableError(absl::StrCat("\"", absl::CHexEscape(host), "\" has no IPv4 or IPv6 address"));
  }
  return addresses;
}

}  // namespace tutti
