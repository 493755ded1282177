#include "src/transport/shm/local_socket.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "src/base/status_macros.h"
#include "src/base/system_error.h"

namespace tutti {
namespace {

constexpr int kType = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;
constexpr int kBacklog = 1024;
constexpr absl::Duration kConnectPause = absl::Milliseconds(1);

struct Address {
  sockaddr_un value = {};
  socklen_t length = 0;
};

absl::StatusOr<Address> AbstractAddress(absl::string_view name) {
  Address address;
  address.value.sun_family = AF_UNIX;
  if (name.empty() || name.size() + 1 > sizeof(address.value.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("\"", absl::CEscape(name), "\" is no name of a local socket"));
  }
  std::memcpy(address.value.sun_path + 1, name.data(), name.size());  // the leading NUL makes it abstract
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

}  // namespace

absl::string_view SpaceOf(absl::string_view name) { return name.substr(0, name.rfind('/')); }

absl::StatusOr<LocalListener> ListenLocally() {
  struct stat space = {};
  if (::stat("/proc/self/ns/net", &space) != 0) return SystemError(errno, "/proc/self/ns/net");
  std::string secret(16, '\0');
  if (::getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size())) {
    return SystemError(errno, "getrandom");
  }
  LocalListener listener{.socket = Fd(::socket(AF_UNIX, kType, 0)),
                         .name = absl::StrCat("tutti-", space.st_ino, "/", absl::BytesToHexString(secret))};
  if (!listener.socket.valid()) return SystemError(errno, "socket");
  TUTTI_ASSIGN_OR_RETURN(const Address address, AbstractAddress(listener.name));
  if (::bind(listener.socket.get(), reinterpret_cast<const sockaddr*>(&address.value), address.length) != 0 ||
      ::listen(listener.socket.get(), kBacklog) != 0) {
    return SystemError(errno, "listening on a local socket");
  }
  return listener;
}

absl::StatusOr<Fd> ConnectLocally(absl::string_view name, absl::Time deadline) {
  TUTTI_ASSIGN_OR_RETURN(const Address address, AbstractAddress(name));
  Fd socket(::socket(AF_UNIX, kType, 0));
  if (!socket.valid()) return SystemError(errno, "socket");
  while (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.value), address.length) != 0) {
    // EAGAIN: too many callers wait already.
    if (errno != EAGAIN && errno != EINTR) return SystemError(errno, "connecting to a local socket");
    if (absl::Now() >= deadline) return absl::DeadlineExceededError("connecting to a local socket");
    absl::SleepFor(kConnectPause);
  }
  return socket;
}

absl::StatusOr<std::optional<Fd>> AcceptLocally(int listener) {
  Fd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.valid()) {
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return std::nullopt;
    return SystemError(errno, "accept");
  }
  ucred caller = {};
  socklen_t length = sizeof(caller);
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &caller, &length) != 0 || caller.uid != ::geteuid()) {
    return std::nullopt;
  }
  return std::optional<Fd>(std::move(socket));
}

absl::Status SendPacket(int socket, const Packet& packet, absl::Span<const int> descriptors) {
  Packet copy = packet;
  iovec part = {.iov_base = &copy, .iov_len = sizeof(copy)};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    const size_t bytes = std::min<size_t>(descriptors.size(), 2) * sizeof(int);
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(header), descriptors.data(), bytes);
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent == static_cast<ssize_t>(sizeof(copy))) return absl::OkStatus();
  if (errno == EAGAIN || errno == ETOOMANYREFS) return absl::ResourceExhaustedError("a neighbour reads no packets");
  return absl::UnavailableError(absl::StrCat("a neighbour's socket: ", std::strerror(errno)));
}

absl::StatusOr<std::optional<ReceivedPacket>> ReceivePacket(int socket) {
  ReceivedPacket received;
  iovec part = {.iov_base = &received.packet, .iov_len = sizeof(received.packet)};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  // MSG_TRUNC: the size that was sent, even if it is more than was asked for.
  const ssize_t count = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); count >= 0 && header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t descriptors = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < std::min<size_t>(descriptors, 2); ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      received.descriptors[i] = Fd(descriptor);
    }
  }
  if (count > 0 && count != static_cast<ssize_t>(sizeof(received.packet))) {
    return absl::InvalidArgumentError(
        absl::StrCat("a neighbour sent a packet of ", count, " bytes, not of ", sizeof(received.packet)));
  }
  if (count > 0 && (message.msg_flags & MSG_CTRUNC) != 0) {
    return absl::ResourceExhaustedError(
        "a neighbour's descriptors could not be taken: they are too many, or this process has reached its limit of "
        "file descriptors; raise it with `ulimit -n`");
  }
  if (count > 0) return std::optional<ReceivedPacket>(std::move(received));
  return absl::UnavailableError(count == 0 ? "it closed its local socket" : std::strerror(errno));
}

absl::StatusOr<ReceivedPacket> AwaitPacket(int socket, absl::Time deadline) {
  while (true) {
    TUTTI_ASSIGN_OR_RETURN(std::optional<ReceivedPacket> received, ReceivePacket(socket));
    if (received.has_value()) return *std::move(received);
    TUTTI_RETURN_IF_ERROR(AwaitReadable(socket, deadline));
  }
}

absl::Status AwaitReadable(int descriptor, absl::Time deadline) {
  pollfd wanted = {.fd = descriptor, .events = POLLIN, .revents = 0};
  while (true) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return absl::DeadlineExceededError("no answer on a local socket");
    const auto milliseconds = std::min<int64_t>(absl::ToInt64Milliseconds(left) + 1, 1000);
    const int count = ::poll(&wanted, 1, static_cast<int>(milliseconds));
    if (count > 0) return absl::OkStatus();
    if (count < 0 && errno != EINTR) return SystemError(errno, "poll");
  }
}

}  // namespace tutti
