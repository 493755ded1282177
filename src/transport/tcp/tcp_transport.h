// The tcp transport: one non-blocking socket per peer and channel, opened on first use.

#ifndef TUTTI_SRC_TRANSPORT_TCP_TCP_TRANSPORT_H_
#define TUTTI_SRC_TRANSPORT_TCP_TCP_TRANSPORT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "src/base/fd.h"
#include "src/identity/hello.h"
#include "src/transport/transport.h"

namespace tutti {

struct TcpPeer {
  Identity identity;
  std::string address;  // of its listener, as SocketAddress::Parse takes it
};

inline constexpr int kSocketsPerPeerMax = 16;
inline constexpr uint64_t kStripedBytes = 64 << 10;

struct TcpOptions {
  std::vector<TcpPeer> ranks;  // by rank, this one included
  int rank = 0;
  Fd listener;  // accepts the connections of the others
  Fd wake;      // an eventfd, to which others may write as well to end a Sleep; invalid: one is made
  // TCP_CONGESTION of every data socket; empty: "reno" between addresses of one host, where pacing only slows down, and
  // the system's default otherwise.
  std::string congestion;
  // Sockets to each peer, over which messages of a collective from kStripedBytes on are spread: any that is free takes
  // the next one. 0: one within a host, and on links of up to 25 Gbit/s; otherwise one for each 15 Gbit/s, up to 4. The
  // calling side decides.
  int sockets_per_peer = 0;
  // Bounds one connection's set-up, from first use to the exchange of hellos. The calling side reports it: the other
  // cannot tell a caller that is kept away from one that is merely late.
  absl::Duration connect_timeout = absl::Minutes(5);
};

// Between two ranks the lower one connects and the higher one accepts. Both send their hello first; a stranger, or a
// rank of another job, is refused by name and logged.
absl::StatusOr<std::unique_ptr<Endpoint>> MakeTcpEndpoint(TcpOptions options);

}  // namespace tutti

#endif  // TUTTI_SRC_TRANSPORT_TCP_TCP_TRANSPORT_H_
