// Sockets between processes of one host, for small packets that may carry descriptors.
//
// Their names are random, live in the network namespace's abstract space, and so need no file: whoever connects to one
// is on the same host, and the kernel says whose process it is. All sockets are close-on-exec and non-blocking.

#ifndef TUTTI_SRC_TRANSPORT_SHM_LOCAL_SOCKET_H_
#define TUTTI_SRC_TRANSPORT_SHM_LOCAL_SOCKET_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "src/base/fd.h"

namespace tutti {

struct LocalListener {
  Fd socket;
  std::string name;
};
// Names begin alike exactly where the listeners can be reached from each other: in one network namespace of one kernel.
// What comes before the last '/'.
absl::string_view SpaceOf(absl::string_view name);
absl::StatusOr<LocalListener> ListenLocally();

// kUnavailable if nobody listens there.
absl::StatusOr<Fd> ConnectLocally(absl::string_view name, absl::Time deadline);
// Nothing if nobody waits, or who did is of another user.
absl::StatusOr<std::optional<Fd>> AcceptLocally(int listener);

struct Packet {
  uint32_t kind = 0;
  uint32_t number = 0;
  uint64_t id = 0;
  uint64_t bytes = 0;
};
struct ReceivedPacket {
  Packet packet;
  std::array<Fd, 2> descriptors;  // as many as came, the others invalid
};

// kUnavailable: the peer has closed; kResourceExhausted: it has too many packets to read.
absl::Status SendPacket(int socket, const Packet& packet, absl::Span<const int> descriptors);
// Nothing if none is there. kUnavailable: the peer has closed.
absl::StatusOr<std::optional<ReceivedPacket>> ReceivePacket(int socket);
// Waits for one.
absl::StatusOr<ReceivedPacket> AwaitPacket(int socket, absl::Time deadline);

// Until the descriptor is readable, or its peer has closed. kDeadlineExceeded.
absl::Status AwaitReadable(int descriptor, absl::Time deadline);

}  // namespace tutti

#endif  // TUTTI_SRC_TRANSPORT_SHM_LOCAL_SOCKET_H_
