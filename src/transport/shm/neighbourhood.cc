#include "src/transport/shm/neighbourhood.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "src/base/status_macros.h"
#include "src/transport/shm/local_socket.h"

namespace tutti {
namespace {

constexpr uint32_t kHello = 0x31535554;   // "TUS1"; number: the rank; id: the group; bytes: of the segment, which comes
                                          // with the doorbell
constexpr uint32_t kAgreed = 0x32535554;  // to the lowest rank: all is well here; from it: everywhere

absl::Status About(const absl::Status& status, int rank) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("rank ", rank, ": ", status.message()));
}

}  // namespace

absl::StatusOr<Neighbourhood> Neighbourhood::Meet(NeighbourhoodOptions options) {
  Neighbourhood neighbourhood;
  for (const ShmNeighbour& each : options.neighbours) {
    if (each.rank == options.rank) neighbourhood.self_ = neighbourhood.count();
    neighbourhood.neighbours_.push_back({.rank = each.rank, .segment = {}, .socket = {}, .doorbell = {}});
  }
  TUTTI_ASSIGN_OR_RETURN(neighbourhood.neighbours_[static_cast<size_t>(neighbourhood.self_)].segment,
                         Segment::Create(options.segment_bytes));
  TUTTI_RETURN_IF_ERROR(neighbourhood.CallLower(options));
  TUTTI_RETURN_IF_ERROR(neighbourhood.AdmitHigher(options));
  TUTTI_RETURN_IF_ERROR(neighbourhood.HearLower(options));
  TUTTI_RETURN_IF_ERROR(neighbourhood.Agree(options));
  return neighbourhood;
}

absl::Status Neighbourhood::CallLower(const NeighbourhoodOptions& options) {
  for (int index = 0; index < self_; ++index) {
    const ShmNeighbour& callee = options.neighbours[static_cast<size_t>(index)];
    absl::StatusOr<Fd> socket = ConnectLocally(callee.address, options.deadline);
    if (!socket.ok()) return About(socket.status(), callee.rank);
    TUTTI_RETURN_IF_ERROR(About(Introduce(options, socket->get()), callee.rank));
    neighbours_[static_cast<size_t>(index)].socket = *std::move(socket);
  }
  return absl::OkStatus();
}

absl::Status Neighbourhood::AdmitHigher(const NeighbourhoodOptions& options) {
  for (int missing = count() - 1 - self_; missing > 0;) {
    TUTTI_ASSIGN_OR_RETURN(std::optional<Fd> socket, AcceptLocally(options.listener.get()));
    if (!socket.has_value()) {
      TUTTI_RETURN_IF_ERROR(AwaitReadable(options.listener.get(), options.deadline));
      continue;
    }
    const absl::StatusOr<int> caller = Welcome(options, *socket);
    if (!caller.ok()) return caller.status();
    if (*caller <= self_) return absl::FailedPreconditionError("a neighbour of a lower rank called");
    const int fd = neighbours_[static_cast<size_t>(*caller)].socket.get();
    TUTTI_RETURN_IF_ERROR(About(Introduce(options, fd), rank(*caller)));
    --missing;
  }
  return absl::OkStatus();
}

absl::Status Neighbourhood::HearLower(const NeighbourhoodOptions& options) {
  for (int index = 0; index < self_; ++index) {
    Fd socket = std::move(neighbours_[static_cast<size_t>(index)].socket);
    const absl::StatusOr<int> answerer = Welcome(options, socket);
    if (!answerer.ok()) return About(answerer.status(), rank(index));
    if (*answerer != index) return absl::FailedPreconditionError("a neighbour answered for another");
  }
  return absl::OkStatus();
}

absl::Status Neighbourhood::Introduce(const NeighbourhoodOptions& options, int socket) const {
  const int descriptors[] = {neighbours_[static_cast<size_t>(self_)].segment.descriptor(), options.doorbell.get()};
  return SendPacket(socket,
                    {.kind = kHello,
                     .number = static_cast<uint32_t>(options.rank),
                     .id = options.group,
                     .bytes = neighbours_[static_cast<size_t>(self_)].segment.bytes()},
                    descriptors);
}

// The index of the neighbour at the other end, which is complete then.
absl::StatusOr<int> Neighbourhood::Welcome(const NeighbourhoodOptions& options, Fd& socket) {
  TUTTI_ASSIGN_OR_RETURN(ReceivedPacket hello, AwaitPacket(socket.get(), options.deadline));
  const auto found = std::find_if(neighbours_.begin(), neighbours_.end(), [&](const Neighbour& each) {
    return static_cast<uint32_t>(each.rank) == hello.packet.number;
  });
  if (hello.packet.kind != kHello || hello.packet.id != options.group || found == neighbours_.end() ||
      found->segment.data() != nullptr || !hello.descriptors[1].valid()) {
    return absl::FailedPreconditionError("somebody who is no neighbour of this group called on its local socket");
  }
  TUTTI_ASSIGN_OR_RETURN(found->segment, Segment::Attach(std::move(hello.descriptors[0]),
                                                         neighbours_[static_cast<size_t>(self_)].segment.bytes()));
  found->doorbell = std::move(hello.descriptors[1]);
  found->socket = std::move(socket);
  return static_cast<int>(found - neighbours_.begin());
}

absl::Status Neighbourhood::Agree(const NeighbourhoodOptions& options) {
  auto hear = [&](int index) -> absl::Status {
    absl::StatusOr<ReceivedPacket> said = AwaitPacket(socket(index), options.deadline);
    if (!said.ok()) return About(said.status(), rank(index));
    if (said->packet.kind != kAgreed) return absl::InternalError("a neighbour spoke out of turn");
    return absl::OkStatus();
  };
  auto tell = [&](int index) { return About(SendPacket(socket(index), {.kind = kAgreed}, {}), rank(index)); };
  if (self_ > 0) {
    TUTTI_RETURN_IF_ERROR(tell(0));
    return hear(0);
  }
  for (int index = 1; index < count(); ++index) TUTTI_RETURN_IF_ERROR(hear(index));
  for (int index = 1; index < count(); ++index) TUTTI_RETURN_IF_ERROR(tell(index));
  return absl::OkStatus();
}

bool Neighbourhood::HasClosed(int index) const {
  pollfd end = {.fd = socket(index), .events = 0, .revents = 0};
  return ::poll(&end, 1, 0) > 0 && (end.revents & (POLLHUP | POLLERR)) != 0;
}

void Neighbourhood::Ring(int index) const {
  const uint64_t one = 1;
  // The counter cannot overflow in a lifetime; nothing else can go wrong that the neighbour's end does not show.
  [[maybe_unused]] const ssize_t written =
      ::write(neighbours_[static_cast<size_t>(index)].doorbell.get(), &one, sizeof(one));
}

}  // namespace tutti
