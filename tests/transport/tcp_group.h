// Endpoints of the tcp transport over loopback, all in this process.

#ifndef TUTTI_TESTS_TRANSPORT_TCP_GROUP_H_
#define TUTTI_TESTS_TRANSPORT_TCP_GROUP_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "src/base/host.h"
#include "src/base/socket.h"
#include "src/transport/tcp/tcp_transport.h"

namespace tutti {

inline Identity TestIdentity(int rank, int size) {
  Identity identity;
  identity.version = "test";
  identity.job_id = "job";
  identity.rank = rank;
  identity.world_size = size;
  identity.hostname = absl::StrCat("host", rank);
  identity.host_id = "host";
  identity.boot_id = "boot";
  identity.pid = 100 + rank;
  return identity;
}

// A listener on a port of the host, and its address.
inline std::pair<Fd, std::string> TestListener(absl::string_view host) {
  Fd listener = Listen(SocketAddress::Parse(absl::StrCat(host, ":0")).value()).value();
  std::string address = LocalAddress(listener.get())->ToString();
  return {std::move(listener), std::move(address)};
}

// What each rank of a group passes to MakeTcpEndpoint.
inline std::vector<TcpOptions> TestTcpOptions(int size, absl::string_view host = "127.0.0.1") {
  std::vector<TcpOptions> options(size);
  std::vector<TcpPeer> ranks;
  for (int rank = 0; rank < size; ++rank) {
    auto [listener, address] = TestListener(host);
    options[rank].rank = rank;
    options[rank].listener = std::move(listener);
    ranks.push_back({TestIdentity(rank, size), std::move(address)});
  }
  for (TcpOptions& each : options) each.ranks = ranks;
  return options;
}

inline std::vector<std::unique_ptr<Endpoint>> MakeTcpGroup(int size, absl::string_view host = "127.0.0.1") {
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  for (TcpOptions& options : TestTcpOptions(size, host)) {
    endpoints.push_back(MakeTcpEndpoint(std::move(options)).value());
  }
  return endpoints;
}

}  // namespace tutti

#endif  // TUTTI_TESTS_TRANSPORT_TCP_GROUP_H_
