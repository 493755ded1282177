// EventLoop: one thread that watches descriptors, runs posted functions and timers.
//
// Thread-safe where stated; everything else is called on the loop's own thread, from within a callback.

#ifndef TUTTI_SRC_BASE_EVENT_LOOP_H_
#define TUTTI_SRC_BASE_EVENT_LOOP_H_

#include <sys/epoll.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tutti {

class EventLoop {
 public:
  // Starts the thread, named `name` (at most 15 characters).
  static absl::StatusOr<std::unique_ptr<EventLoop>> Start(std::string name);

  // Stops and joins the thread. Functions posted before are run; timers, watches, and what these functions post are
  // dropped, on the loop's thread. Not from the loop itself.
  virtual ~EventLoop() = default;

  // Runs `function` on the loop. Any thread; never inline.
  virtual void Post(absl::AnyInvocable<void()> function) = 0;
  // Post, and wait until it has run. Any thread but the loop's own. The wait has no limit of its own: it ends because
  // nothing on a loop may block, and the loop must not be destroyed meanwhile.
  virtual void RunAndWait(absl::AnyInvocable<void()> function) = 0;
  virtual bool OnLoopThread() const = 0;

  // From here on: on the loop's thread only.

  // Calls back with the ready epoll events (level-triggered) until Unwatch, which comes before the descriptor is
  // closed. One watch per descriptor.
  virtual absl::Status Watch(int fd, uint32_t events, absl::AnyInvocable<void(uint32_t events)> callback) = 0;
  virtual void Rewatch(int fd, uint32_t events) = 0;
  // No call follows, not even of an event already found. Allowed within any callback, also the watch's own.
  virtual void Unwatch(int fd) = 0;

  using TimerId = uint64_t;
  virtual TimerId After(absl::Duration delay, absl::AnyInvocable<void()> callback) = 0;  // once; never early
  virtual void Cancel(TimerId id) = 0;                                                   // no effect if it has fired

 protected:
  EventLoop() = default;
};

}  // namespace tutti

#endif  // TUTTI_SRC_BASE_EVENT_LOOP_H_
