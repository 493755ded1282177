// Which of this host's addresses the peers shall use.

#ifndef TUTTI_SRC_RENDEZVOUS_NETWORK_H_
#define TUTTI_SRC_RENDEZVOUS_NETWORK_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "src/base/socket.h"

namespace tutti {

struct Interface {
  std::string name;
  bool up = false;
  bool loopback = false;
  SocketAddress address;  // port 0
  int prefix_bits = 0;    // of the network
};

// The interfaces of this host that have an IPv4 or IPv6 address, one entry an address.
absl::StatusOr<std::vector<Interface>> ListInterfaces();

struct InterfaceChoice {
  SocketAddress address;  // port 0
  std::string reason;     // "eth0: routes to the master 10.8.0.1"
};

// `specification` empty: the local address that the kernel uses to reach `master` (`route_source`), which is loopback
// only if the master is this host. Otherwise names, name prefixes, CIDR blocks or addresses, separated by commas,
// blanks ignored; a name that matches exactly wins over prefixes; with a leading ^ everything but these, and never
// loopback by that. Among several that match, the one that routes to the master, else the first that is up and has the
// master's family. Bridges of container engines (docker0, virbr0, ...) are taken only by name. The error lists the
// interfaces there are, with addresses and state.
absl::StatusOr<InterfaceChoice> ChooseInterface(absl::string_view specification, absl::Span<const Interface> interfaces,
                                                const SocketAddress& master, const SocketAddress& route_source);

// The local address that routes to `remote`; no packet is sent.
absl::StatusOr<SocketAddress> RouteSource(const SocketAddress& remote);

}  // namespace tutti

#endif  // TUTTI_SRC_RENDEZVOUS_NETWORK_H_
