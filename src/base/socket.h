// Addresses and sockets, IPv4 and IPv6. All sockets are close-on-exec and non-blocking.

#ifndef TUTTI_SRC_BASE_SOCKET_H_
#define TUTTI_SRC_BASE_SOCKET_H_

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "src/base/fd.h"

namespace tutti {

// A numeric address and port.
class SocketAddress {
 public:
  SocketAddress();  // family AF_UNSPEC
  SocketAddress(const sockaddr* address, socklen_t length);
  // "10.0.0.1:29500", "[::1]:29500", "[fe80::1%eth0]:29500". No names.
  static absl::StatusOr<SocketAddress> Parse(absl::string_view text);

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t length() const { return length_; }
  int family() const { return storage_.ss_family; }
  uint16_t port() const;
  SocketAddress WithPort(uint16_t port) const;
  bool IsLoopback() const;
  std::string Host() const;      // without port and brackets
  std::string ToString() const;  // as Parse takes it

 private:
  sockaddr_storage storage_;
  socklen_t length_ = 0;
};

struct PortRange {  // inclusive; first == 0: any port
  uint16_t first = 0, last = 0;
};

// All addresses of a name or numeric host, in the resolver's order; blocks in the resolver. kUnavailable with the
// resolver's reason: the caller decides whether to try again.
absl::StatusOr<std::vector<SocketAddress>> Resolve(absl::string_view host, uint16_t port);

// Listens on the address; with a port range and port 0, on the first free port of the range. An IPv6 listener takes
// IPv6 only, except on "::", which takes both.
absl::StatusOr<Fd> Listen(const SocketAddress& address, PortRange range = {});
absl::StatusOr<SocketAddress> LocalAddress(int fd);
absl::StatusOr<SocketAddress> PeerAddress(int fd);

// Begins to connect; writable when decided, then FinishConnect tells. `source`, if its family is not AF_UNSPEC, is
// bound first. TCP_NODELAY is set. `congestion`, if not empty, is the socket's TCP_CONGESTION where the system allows
// it.
absl::StatusOr<Fd> StartConnect(const SocketAddress& to, const SocketAddress& source = {},
                                absl::string_view congestion = {});
absl::Status FinishConnect(int fd, const SocketAddress& to);
// Connects to the first of the addresses that answers, trying all of them again until the deadline (refusals too: the
// listener may come later). kUnavailable or kDeadlineExceeded lists each address with its reason: "refused (nobody
// listening)" as against "no answer (dropped by a firewall?)".
absl::StatusOr<Fd> ConnectAny(const std::vector<SocketAddress>& to, absl::Time deadline);

// Accepts one connection; kUnavailable if none waits. TCP_NODELAY is set.
absl::StatusOr<Fd> Accept(int listener);

}  // namespace tutti

#endif  // TUTTI_SRC_BASE_SOCKET_H_
