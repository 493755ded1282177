#include "src/rendezvous/network.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "src/base/fd.h"
#include "src/rendezvous/parse.h"

namespace tutti {
namespace {

// The bytes of an IP address, in network order; empty for other families.
absl::Span<const uint8_t> AddressBytes(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const in_addr& ip = reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
    return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(&ip), sizeof(ip));
  }
  if (address->sa_family == AF_INET6) {
    const in6_addr& ip = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(&ip), sizeof(ip));
  }
  return {};
}

bool SamePrefix(const SocketAddress& a, const SocketAddress& b, int bits) {
  const absl::Span<const uint8_t> x = AddressBytes(a.get()), y = AddressBytes(b.get());
  if (x.size() != y.size() || x.empty()) return false;
  for (size_t i = 0; i < x.size(); ++i) {
    const int used = std::clamp(bits - static_cast<int>(8 * i), 0, 8);
    if (((x[i] ^ y[i]) >> (8 - used)) != 0) return false;
  }
  return true;
}

bool SameHost(const SocketAddress& a, const SocketAddress& b) { return SamePrefix(a, b, 128); }

bool IsLinkLocal(const SocketAddress& address) {
  if (address.family() != AF_INET6) return false;
  return IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address.get())->sin6_addr);
}

// Every host with a container engine has these, often with the same address.
bool IsContainerBridge(absl::string_view name) {
  for (absl::string_view prefix : {"docker", "virbr", "podman", "cni", "lxcbr", "lxdbr"}) {
    if (absl::StartsWith(name, prefix)) return true;
  }
  return absl::ConsumePrefix(&name, "br-") && name.size() == 12 &&
         std::all_of(name.begin(), name.end(), absl::ascii_isxdigit);
}

// One item of a specification.
struct Pattern {
  std::string name;  // or an address or network:
  SocketAddress network;
  int bits = 128;
  bool exact = false;  // there is an interface of just this name

  bool IsName() const { return network.family() == AF_UNSPEC; }
  bool IsAddress() const { return !IsName() && bits == 128; }
  bool Matches(const Interface& interface) const {
    if (!IsName()) return SamePrefix(interface.address, network, bits);
    return exact ? interface.name == name : absl::StartsWith(interface.name, name);
  }
};

std::optional<SocketAddress> ParseNumeric(absl::string_view host) {
  absl::StatusOr<SocketAddress> address =
      SocketAddress::Parse(absl::StrContains(host, ':') ? absl::StrCat("[", host, "]:0") : absl::StrCat(host, ":0"));
  if (!address.ok()) return std::nullopt;
  return *address;
}

absl::StatusOr<Pattern> ParsePattern(absl::string_view item, absl::Span<const Interface> interfaces) {
  Pattern pattern;
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(item, absl::MaxSplits('/', 1));
  if (const std::optional<SocketAddress> address = ParseNumeric(parts.first)) {
    pattern.network = *address;
    if (!absl::StrContains(item, '/')) return pattern;
    const int most = address->family() == AF_INET ? 32 : 128;
    const absl::StatusOr<int64_t> bits = ParseDecimal(parts.second, "the bits of a network", 0, most);
    if (bits.ok()) {
      pattern.bits = static_cast<int>(*bits);
      return pattern;
    }
  }
  if (absl::StrContains(item, '/')) {
    return absl::InvalidArgumentError(absl::StrCat(Quoted(item), " is no network such as 10.8.0.0/24 or fd00::/8"));
  }
  pattern.name = std::string(item);
  pattern.exact = std::any_of(interfaces.begin(), interfaces.end(),
                              [&](const Interface& interface) { return interface.name == item; });
  return pattern;
}

struct Specification {
  bool exclude = false;
  std::vector<Pattern> patterns;

  bool Admits(const Interface& interface) const {
    const auto matches = [&](const Pattern& pattern) { return pattern.Matches(interface); };
    const bool listed = std::any_of(patterns.begin(), patterns.end(), matches);
    if (exclude) return !listed && !interface.loopback && !IsContainerBridge(interface.name);
    if (!listed || !IsContainerBridge(interface.name)) return listed;
    return std::any_of(patterns.begin(), patterns.end(), [&](const Pattern& pattern) {
      return pattern.Matches(interface) && (pattern.exact || pattern.IsAddress());
    });
  }
};

absl::StatusOr<Specification> ParseSpecification(absl::string_view text, absl::Span<const Interface> interfaces) {
  Specification specification;
  text = absl::StripAsciiWhitespace(text);
  specification.exclude = absl::ConsumePrefix(&text, "^");
  for (absl::string_view item : absl::StrSplit(text, ',')) {
    item = absl::StripAsciiWhitespace(item);
    if (item.empty()) continue;
    absl::StatusOr<Pattern> pattern = ParsePattern(item, interfaces);
    if (!pattern.ok()) return pattern.status();
    specification.patterns.push_back(*std::move(pattern));
  }
  return specification;
}

std::string DescribeInterface(const Interface& interface) {
  return absl::StrCat(interface.name, " ", interface.address.Host(), "/", interface.prefix_bits, " (",
                      interface.up ? "up" : "down", interface.loopback ? ", loopback" : "", ")");
}

std::string Table(absl::Span<const Interface> interfaces) {
  if (interfaces.empty()) return "none";
  return absl::StrJoin(interfaces, ", ", [](std::string* out, const Interface& interface) {
    absl::StrAppend(out, DescribeInterface(interface));
  });
}

absl::string_view FamilyName(int family) {
  return family == AF_INET ? "IPv4" : family == AF_INET6 ? "IPv6" : "IPv4 or IPv6";
}

std::string WhyRouted(const SocketAddress& master) {
  if (master.family() == AF_UNSPEC) return "the default route";
  return absl::StrCat("routes to the master ", master.Host());
}

InterfaceChoice ByRoute(absl::Span<const Interface> interfaces, const SocketAddress& master,
                        const SocketAddress& route_source) {
  std::string name = route_source.Host();
  for (const Interface& interface : interfaces) {
    if (SameHost(interface.address, route_source)) name = interface.name;
  }
  return {.address = route_source.WithPort(0), .reason = absl::StrCat(name, ": ", WhyRouted(master))};
}

}  // namespace

absl::StatusOr<std::vector<Interface>> ListInterfaces() {
  ifaddrs* head = nullptr;
  if (getifaddrs(&head) != 0) {
    return absl::InternalError(absl::StrCat("cannot list the network interfaces: ", std::strerror(errno)));
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(head, freeifaddrs);
  std::vector<Interface> interfaces;
  for (const ifaddrs* entry = head; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    Interface interface;
    interface.name = entry->ifa_name;
    interface.up = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_RUNNING) != 0;
    interface.loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    interface.address =
        SocketAddress(entry->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6)).WithPort(0);
    if (entry->ifa_netmask != nullptr) {
      sockaddr_storage mask = {};  // the kernel may leave its family unset
      std::memcpy(&mask, entry->ifa_netmask, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
      mask.ss_family = static_cast<sa_family_t>(family);
      for (uint8_t byte : AddressBytes(reinterpret_cast<const sockaddr*>(&mask))) {
        interface.prefix_bits += __builtin_popcount(byte);
      }
    }
    interfaces.push_back(std::move(interface));
  }
  return interfaces;
}

absl::StatusOr<InterfaceChoice> ChooseInterface(absl::string_view specification, absl::Span<const Interface> interfaces,
                                                const SocketAddress& master, const SocketAddress& route_source) {
  absl::StatusOr<Specification> parsed = ParseSpecification(specification, interfaces);
  if (!parsed.ok()) return parsed.status();
  if (parsed->patterns.empty() && !parsed->exclude) return ByRoute(interfaces, master, route_source);

  const int family = master.family();
  const Interface* chosen = nullptr;
  const char* why = "the first that matches";
  for (const Interface& interface : interfaces) {
    if (!interface.up || !parsed->Admits(interface)) continue;
    if (family != AF_UNSPEC && interface.address.family() != family) continue;
    if (SameHost(interface.address, route_source)) {
      return InterfaceChoice{
          .address = interface.address,
          .reason = absl::StrCat(interface.name, ": matches ", Quoted(specification), " and ", WhyRouted(master))};
    }
    if (chosen == nullptr && (!IsLinkLocal(interface.address) || IsLinkLocal(master))) chosen = &interface;
  }
  if (chosen == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("no interface that is up and has an ", FamilyName(family),
                                                   " address matches the socket interface ", Quoted(specification),
                                                   "; this host has: ", Table(interfaces)));
  }
  return InterfaceChoice{.address = chosen->address,
                         .reason = absl::StrCat(chosen->name, ": ", why, " ", Quoted(specification))};
}

absl::StatusOr<SocketAddress> RouteSource(const SocketAddress& remote) {
  const Fd probe(socket(remote.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const SocketAddress to = remote.port() == 0 ? remote.WithPort(9) : remote;  // any; nothing is sent
  if (!probe.valid() || connect(probe.get(), to.get(), to.length()) != 0) {
    return absl::UnavailableError(
        absl::StrCat("this host has no route to ", remote.Host(), ": ", std::strerror(errno)));
  }
  absl::StatusOr<SocketAddress> local = LocalAddress(probe.get());
  if (!local.ok()) return local;
  return local->WithPort(0);
}

}  // namespace tutti
