#include "src/transport/tcp/event_set.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <climits>
#include <utility>

#include "src/base/status_macros.h"
#include "src/base/system_error.h"

namespace tutti {
namespace {

constexpr uint64_t kWakeId = UINT64_MAX;

epoll_event EventFor(uint64_t id) {
  epoll_event event = {};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.u64 = id;
  return event;
}

}  // namespace

absl::StatusOr<EventSet> EventSet::Create(Fd wake) {
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return SystemError(errno, "epoll_create1");
  if (!wake.valid()) wake = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return SystemError(errno, "eventfd");
  EventSet set(std::move(epoll), std::move(wake));
  // Never read: every write is an edge, and 2^64 of them do not happen.
  epoll_event event = EventFor(kWakeId);
  event.events = EPOLLIN | EPOLLET;
  if (::epoll_ctl(set.epoll_.get(), EPOLL_CTL_ADD, set.wake_.get(), &event) != 0)
    return SystemError(errno, "epoll_ctl");
  return set;
}

absl::Status EventSet::Add(int fd, uint64_t id) {
  epoll_event event = EventFor(id);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return SystemError(errno, "epoll_ctl");
  return absl::OkStatus();
}

void EventSet::Rename(int fd, uint64_t id) {
  epoll_event event = EventFor(id);
  [[maybe_unused]] const int result = ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
  assert(result == 0);
}

bool EventSet::Wait(absl::Duration timeout, absl::FunctionRef<void(uint64_t id, uint32_t events)> edge) {
  epoll_event events[64];
  const int count = WaitForEvents(events, 64, timeout);
  bool woken = false;
  for (int i = 0; i < count; ++i) {
    if (events[i].data.u64 == kWakeId) {
      woken = true;
    } else {
      edge(events[i].data.u64, events[i].events);
    }
  }
  return woken;
}

int EventSet::WaitForEvents(epoll_event* events, int count, absl::Duration timeout) {
  timeout = std::max(timeout, absl::ZeroDuration());
  if (has_pwait2_ && timeout > absl::ZeroDuration()) {
    const timespec limit = absl::ToTimespec(timeout);
    const int result =
        ::epoll_pwait2(epoll_.get(), events, count, timeout == absl::InfiniteDuration() ? nullptr : &limit,
                       /*sigmask=*/nullptr);
    if (result >= 0 || errno != ENOSYS) return result;
    has_pwait2_ = false;
  }
  const int64_t milliseconds = absl::ToInt64Milliseconds(absl::Ceil(timeout, absl::Milliseconds(1)));
  const bool forever = timeout == absl::InfiniteDuration();
  return ::epoll_wait(epoll_.get(), events, count, forever ? -1 : std::min<int64_t>(milliseconds, INT_MAX));
}

void EventSet::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof(one));
}

}  // namespace tutti
