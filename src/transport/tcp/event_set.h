// EventSet: edge-triggered readiness of many descriptors, and a way to end the wait from another thread.
//
// An edge is reported once, by the first Wait after it; whoever calls Wait keeps a note of it until the descriptor has
// been used up to EAGAIN. Wake is thread-safe.

#ifndef TUTTI_SRC_TRANSPORT_TCP_EVENT_SET_H_
#define TUTTI_SRC_TRANSPORT_TCP_EVENT_SET_H_

#include <sys/epoll.h>

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "src/base/fd.h"

namespace tutti {

class EventSet {
 public:
  // `wake`: an eventfd, which ends a Wait when anybody writes to it; invalid: one is made.
  static absl::StatusOr<EventSet> Create(Fd wake = {});

  // Watches a descriptor, until it is closed, for reading, writing and the end of the peer.
  absl::Status Add(int fd, uint64_t id);
  // Gives it another id. What is ready now counts as a new edge.
  void Rename(int fd, uint64_t id);

  // Waits for an edge or Wake; true if there was a Wake.
  bool Wait(absl::Duration timeout, absl::FunctionRef<void(uint64_t id, uint32_t events)> edge);
  // Ends the current or the next Wait.
  void Wake();

 private:
  EventSet(Fd epoll, Fd wake) : epoll_(std::move(epoll)), wake_(std::move(wake)) {}
  int WaitForEvents(epoll_event* events, int count, absl::Duration timeout);

  Fd epoll_;
  Fd wake_;
  bool has_pwait2_ = true;
};

}  // namespace tutti

#endif  // TUTTI_SRC_TRANSPORT_TCP_EVENT_SET_H_
