#include "src/base/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status_macros.h"
#include "src/base/system_error.h"

namespace tutti {
namespace {

absl::StatusOr<Fd> TcpSocket(int family) {
  Fd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return SystemError(errno, "socket");
  return fd;
}

bool SetOption(int fd, int level, int option, int value) {
  return ::setsockopt(fd, level, option, &value, sizeof(value)) == 0;
}

bool IsAnyV6(const SocketAddress& address) {
  return address.family() == AF_INET6 &&
         IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(address.get())->sin6_addr);
}

// 0, or the errno of a bind or listen that failed.
int BindAndListen(int fd, const SocketAddress& address) {
  SetOption(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.family() == AF_INET6) SetOption(fd, IPPROTO_IPV6, IPV6_V6ONLY, IsAnyV6(address) ? 0 : 1);
  if (::bind(fd, address.get(), address.length()) != 0) return errno;
  if (::listen(fd, SOMAXCONN) != 0) return errno;
  return 0;
}

absl::StatusOr<Fd> ListenInRange(const SocketAddress& address, PortRange range) {
  for (uint32_t port = range.first; port <= range.last; ++port) {
    TUTTI_ASSIGN_OR_RETURN(Fd fd, TcpSocket(address.family()));
    const SocketAddress candidate = address.WithPort(static_cast<uint16_t>(port));
    const int error = BindAndListen(fd.get(), candidate);
    if (error == 0) return fd;
    if (error != EADDRINUSE) return SystemError(error, absl::StrCat("cannot listen on ", candidate.ToString()));
  }
  return absl::UnavailableError(absl::StrCat("cannot listen on ", address.Host(), ": all ports from ", range.first,
                                             " to ", range.last, " are in use; widen the range"));
}

absl::StatusOr<SocketAddress> NameOf(int fd, int (*get)(int, sockaddr*, socklen_t*), absl::string_view what) {
  sockaddr_storage storage = {};
  socklen_t length = sizeof(storage);
  if (get(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return SystemError(errno, what);
  return SocketAddress(reinterpret_cast<const sockaddr*>(&storage), length);
}

absl::Status ConnectError(int error, const SocketAddress& to) {
  switch (error) {
    case ECONNREFUSED:
      return absl::UnavailableError(absl::StrCat(to.ToString(), ": refused (nobody listening)"));
    case ETIMEDOUT:
      return absl::DeadlineExceededError(absl::StrCat(to.ToString(), ": no answer (dropped by a firewall?)"));
    default:
      return SystemError(error, to.ToString());
  }
}

}  // namespace

absl::StatusOr<Fd> Listen(const SocketAddress& address, PortRange range) {
  if (range.first != 0 && address.port() == 0) return ListenInRange(address, range);
  TUTTI_ASSIGN_OR_RETURN(Fd fd, TcpSocket(address.family()));
  const int error = BindAndListen(fd.get(), address);
  if (error != 0) return SystemError(error, absl::StrCat("cannot listen on ", address.ToString()));
  return fd;
}

absl::StatusOr<SocketAddress> LocalAddress(int fd) { return NameOf(fd, ::getsockname, "getsockname"); }
absl::StatusOr<SocketAddress> PeerAddress(int fd) { return NameOf(fd, ::getpeername, "getpeername"); }

absl::StatusOr<Fd> StartConnect(const SocketAddress& to, const SocketAddress& source, absl::string_view congestion) {
  TUTTI_ASSIGN_OR_RETURN(Fd fd, TcpSocket(to.family()));
  SetOption(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  if (!congestion.empty()) ::setsockopt(fd.get(), IPPROTO_TCP, TCP_CONGESTION, congestion.data(), congestion.size());
  if (source.family() != AF_UNSPEC) {
    // The port is chosen by connect, which knows the other end: bind alone would run out of ports sooner.
    if (source.port() == 0) SetOption(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    if (::bind(fd.get(), source.get(), source.length()) != 0) {
      return SystemError(errno, absl::StrCat(to.ToString(), ": cannot connect from ", source.Host()));
    }
  }
  if (::connect(fd.get(), to.get(), to.length()) != 0 && errno != EINPROGRESS && errno != EINTR) {
    return ConnectError(errno, to);
  }
  return fd;
}

absl::Status FinishConnect(int fd, const SocketAddress& to) {
  int error = 0;
  socklen_t length = sizeof(error);
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  if (error != 0) return ConnectError(error, to);
  absl::StatusOr<SocketAddress> peer = PeerAddress(fd);
  if (!peer.ok()) return SystemError(ENOTCONN, to.ToString());
  // Without a listener, a port of the ephemeral range can be given to the connecting socket itself: TCP then connects
  // it to itself.
  TUTTI_ASSIGN_OR_RETURN(SocketAddress local, LocalAddress(fd));
  if (local.ToString() == peer->ToString()) return ConnectError(ECONNREFUSED, to);
  return absl::OkStatus();
}

absl::StatusOr<Fd> Accept(int listener) {
  while (true) {
    Fd fd(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.valid()) {
      SetOption(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
      return fd;
    }
    switch (errno) {
      case EINTR:
      case ECONNABORTED:  // gone before it was accepted
      case EPROTO:
        continue;
      case EAGAIN:
        return absl::UnavailableError("no connection waits");
      default:
        return SystemError(errno, "cannot accept a connection");
    }
  }
}

}  // namespace tutti
