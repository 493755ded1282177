#include "src/base/event_loop.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <map>
#include <optional>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "src/base/fd.h"
#include "src/base/system_error.h"
#include "src/base/thread.h"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;

thread_local const void* loop_of_this_thread = nullptr;

// Watches are known to epoll by a serial number, never by descriptor: an event of a watch that an earlier callback of
// the same batch has ended finds nothing, even if the descriptor has been closed and given out again.
class EpollLoop final : public EventLoop {
 public:
  EpollLoop(Fd epoll, Fd wake) : epoll_(std::move(epoll)), wake_(std::move(wake)) {}
  absl::Status Run(std::string name);
  ~EpollLoop() override;

  void Post(absl::AnyInvocable<void()> function) override;
  void RunAndWait(absl::AnyInvocable<void()> function) override;
  bool OnLoopThread() const override { return loop_of_this_thread == this; }

  absl::Status Watch(int fd, uint32_t events, absl::AnyInvocable<void(uint32_t events)> callback) override;
  void Rewatch(int fd, uint32_t events) override;
  void Unwatch(int fd) override;

  TimerId After(absl::Duration delay, absl::AnyInvocable<void()> callback) override;
  void Cancel(TimerId id) override;

 private:
  using Callback = absl::AnyInvocable<void(uint32_t events)>;
  static constexpr uint64_t kWakeSerial = 0;

  void Loop();
  int WaitMilliseconds();
  void RunEvents();
  void RunTimers();
  void RunPosted();
  void DropAll();

  const Fd epoll_, wake_;

  absl::Mutex mutex_;
  std::vector<absl::AnyInvocable<void()>> posted_ ABSL_GUARDED_BY(mutex_);

  // The loop's thread only.
  bool stopped_ = false;
  uint64_t next_id_ = kWakeSerial + 1;                               // of watches and timers
  std::unordered_map<int, uint64_t> serial_of_fd_;                   // the watches,
  std::unordered_map<uint64_t, std::shared_ptr<Callback>> watches_;  // by serial number; shared with a call in progress
  std::map<std::pair<Clock::time_point, TimerId>, absl::AnyInvocable<void()>> timers_;
  std::unordered_map<TimerId, Clock::time_point> timer_times_;

  std::optional<Thread> thread_;
};

absl::Status EpollLoop::Run(std::string name) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = kWakeSerial;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) return SystemError(errno, "epoll_ctl");
  try {
    thread_.emplace(std::move(name), [this] { Loop(); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot start the event loop's thread: ", error.what()));
  }
  return absl::OkStatus();
}

EpollLoop::~EpollLoop() {
  assert(!OnLoopThread());
  Post([this] { stopped_ = true; });
  thread_.reset();
}

void EpollLoop::Post(absl::AnyInvocable<void()> function) {
  bool first = false;
  {
    absl::MutexLock lock(&mutex_);
    first = posted_.empty();
    posted_.push_back(std::move(function));
  }
  // The loop looks at the queue before it waits, and needs no waking by itself.
  if (first && !OnLoopThread()) ::eventfd_write(wake_.get(), 1);
}

void EpollLoop::RunAndWait(absl::AnyInvocable<void()> function) {
  assert(!OnLoopThread());
  absl::Notification done;
  Post([&] {
    function();
    done.Notify();
  });
  done.WaitForNotification();
}

absl::Status EpollLoop::Watch(int fd, uint32_t events, absl::AnyInvocable<void(uint32_t events)> callback) {
  assert(OnLoopThread());
  const uint64_t serial = next_id_++;
  epoll_event event = {};
  event.events = events;
  event.data.u64 = serial;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return SystemError(errno, absl::StrCat("cannot watch descriptor ", fd));
  }
  serial_of_fd_[fd] = serial;
  watches_[serial] = std::make_shared<Callback>(std::move(callback));
  return absl::OkStatus();
}

void EpollLoop::Rewatch(int fd, uint32_t events) {
  assert(OnLoopThread());
  auto found = serial_of_fd_.find(fd);
  if (found == serial_of_fd_.end()) return;
  epoll_event event = {};
  event.events = events;
  event.data.u64 = found->second;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void EpollLoop::Unwatch(int fd) {
  assert(OnLoopThread());
  auto found = serial_of_fd_.find(fd);
  if (found == serial_of_fd_.end()) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  // Out of the map before it is destroyed: what it owns may call the loop.
  auto watch = watches_.extract(found->second);
  serial_of_fd_.erase(found);
}

EventLoop::TimerId EpollLoop::After(absl::Duration delay, absl::AnyInvocable<void()> callback) {
  assert(OnLoopThread());
  const TimerId id = next_id_++;
  const absl::Duration bounded = std::clamp(delay, absl::ZeroDuration(), absl::Hours(24 * 365));
  const Clock::time_point time = Clock::now() + absl::ToChronoNanoseconds(bounded);
  timers_.emplace(std::make_pair(time, id), std::move(callback));
  timer_times_.emplace(id, time);
  return id;
}

void EpollLoop::Cancel(TimerId id) {
  assert(OnLoopThread());
  auto found = timer_times_.find(id);
  if (found == timer_times_.end()) return;
  auto timer = timers_.extract(std::make_pair(found->second, id));
  timer_times_.erase(found);
}

void EpollLoop::Loop() {
  loop_of_this_thread = this;
  while (!stopped_) {
    RunEvents();
    RunTimers();
    RunPosted();
  }
  DropAll();
}

int EpollLoop::WaitMilliseconds() {
  {
    absl::MutexLock lock(&mutex_);
    if (!posted_.empty()) return 0;
  }
  if (timers_.empty()) return -1;
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(timers_.begin()->first.first - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(wait, 0, 3'600'000));
}

void EpollLoop::RunEvents() {
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), WaitMilliseconds());
  assert(count >= 0 || errno == EINTR);
  for (int i = 0; i < count; ++i) {
    const uint64_t serial = events[i].data.u64;  // a copy: the struct is packed, so that nothing may refer into it
    if (serial == kWakeSerial) {
      eventfd_t value;
      ::eventfd_read(wake_.get(), &value);
      continue;
    }
    auto found = watches_.find(serial);
    if (found == watches_.end()) continue;
    const std::shared_ptr<Callback> callback = found->second;
    (*callback)(events[i].events);
  }
}

// Timers that are set meanwhile wait for the next round, so that they cannot keep the loop from its descriptors.
void EpollLoop::RunTimers() {
  const Clock::time_point now = Clock::now();
  const TimerId end = next_id_;
  while (!timers_.empty()) {
    const auto [time, id] = timers_.begin()->first;
    if (time > now || id >= end) return;
    auto timer = timers_.extract(timers_.begin());
    timer_times_.erase(id);
    timer.mapped()();
  }
}

void EpollLoop::RunPosted() {
  std::vector<absl::AnyInvocable<void()>> functions;
  {
    absl::MutexLock lock(&mutex_);
    functions.swap(posted_);
  }
  for (absl::AnyInvocable<void()>& function : functions) {
    if (stopped_) return;
    std::exchange(function, nullptr)();
  }
}

// What the callbacks own is destroyed here, on the loop's thread, and may call the loop once more.
void EpollLoop::DropAll() {
  auto watches = std::exchange(watches_, {});
  auto timers = std::exchange(timers_, {});
  serial_of_fd_.clear();
  timer_times_.clear();
  watches.clear();
  timers.clear();
  std::vector<absl::AnyInvocable<void()>> functions;
  {
    absl::MutexLock lock(&mutex_);
    functions.swap(posted_);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<EventLoop>> EventLoop::Start(std::string name) {
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return SystemError(errno, "cannot make an event loop: epoll_create1");
  Fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return SystemError(errno, "cannot make an event loop: eventfd");
  auto loop = std::make_unique<EpollLoop>(std::move(epoll), std::move(wake));
  if (absl::Status status = loop->Run(std::move(name)); !status.ok()) return status;
  return loop;
}

}  // namespace tutti
