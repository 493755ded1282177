// Congestion: which TCP congestion control each connection uses.
//
// Between addresses of one host packets never leave the kernel, and pacing (bbr) only slows them down: reno. The choice
// must be made before a connection exists: pacing that one algorithm has switched on stays on when another takes over.
// So the calling side sets it before connecting, and the called side lets its listener hand it down.

#ifndef TUTTI_SRC_TRANSPORT_TCP_CONGESTION_H_
#define TUTTI_SRC_TRANSPORT_TCP_CONGESTION_H_

#include <string>
#include <vector>

#include "src/base/socket.h"
#include "src/transport/tcp/tcp_transport.h"

namespace tutti {

class Congestion {
 public:
  // Both outlive the object.
  Congestion(const TcpOptions& options, const std::vector<SocketAddress>& addresses)
      : options_(options), addresses_(addresses) {}

  // Before the first connection is accepted.
  void PrepareListener(int fd);
  // Of a connection to the peer; empty: whatever the system's default is.
  std::string For(int peer) const;
  // Loopback, or an address that both ends share.
  bool OnOwnHost(int peer) const;
  // An accepted connection turned out to be from the peer.
  void Apply(int fd, int peer) const;
  // "value (reason)".
  std::string Describe() const;

 private:
  int OwnHostPeers() const;

  const TcpOptions& options_;
  const std::vector<SocketAddress>& addresses_;
  std::string system_;  // its default
};

}  // namespace tutti

#endif  // TUTTI_SRC_TRANSPORT_TCP_CONGESTION_H_
