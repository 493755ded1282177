// ConnectAny: attempts at all addresses side by side, so that one that never answers does not hold up the others.

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "src/base/socket.h"
#include "src/base/status_macros.h"
#include "src/base/system_error.h"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kHeadStart{200};  // of an address over the next one, unless it fails earlier
constexpr milliseconds kFirstPause{10};
constexpr milliseconds kLongestPause{200};
// The kernel repeats its first packet at ever longer intervals; a new attempt finds a host that has just come up
// sooner.
constexpr milliseconds kAttemptLimit{10000};

class Attempt {
 public:
  Attempt(const SocketAddress& to, Clock::time_point start) : to_(to), next_(start) {}

  bool running() const { return fd_.valid(); }
  bool untried() const { return !running() && status_.ok(); }
  int fd() const { return fd_.get(); }
  // When Advance has something to do even if the socket has not: the next attempt, or the end of this one.
  Clock::time_point next() const { return next_; }
  const absl::Status& status() const { return status_; }
  void Hasten(Clock::time_point now) { next_ = std::min(next_, now); }

  // The connection, if there is one by now; an error only if no attempt can succeed.
  absl::StatusOr<Fd> Advance(Clock::time_point now, bool decided) {
    if (!running() && now >= next_) {
      Start(now);
      if (absl::IsResourceExhausted(status_)) return status_;
    } else if (running() && decided) {
      absl::Status status = FinishConnect(fd_.get(), to_);
      if (status.ok()) return std::move(fd_);
      Fail(std::move(status), now);
    } else if (running() && now >= next_) {
      Fail(NoAnswer(), now);
    }
    return Fd();
  }

  void GiveUp() {
    if (running() || untried()) status_ = NoAnswer();
  }

 private:
  void Start(Clock::time_point now) {
    absl::StatusOr<Fd> started = StartConnect(to_);
    if (!started.ok()) return Fail(std::move(started).status(), now);
    fd_ = *std::move(started);
    next_ = now + kAttemptLimit;
  }

  void Fail(absl::Status status, Clock::time_point now) {
    fd_.Close();
    status_ = std::move(status);
    next_ = now + pause_;
    pause_ = std::min(pause_ * 2, kLongestPause);
  }

  absl::Status NoAnswer() const {
    return absl::DeadlineExceededError(absl::StrCat(to_.ToString(), ": no answer (dropped by a firewall?)"));
  }

  SocketAddress to_;
  Fd fd_;
  absl::Status status_;  // of the last attempt that has ended
  Clock::time_point next_;
  milliseconds pause_ = kFirstPause;
};

absl::Status Failure(std::vector<Attempt>& attempts, absl::Duration waited) {
  bool silent = false;
  for (Attempt& attempt : attempts) {
    attempt.GiveUp();
    silent = silent || absl::IsDeadlineExceeded(attempt.status());
  }
  std::string message = absl::StrCat("cannot connect within ", absl::FormatDuration(waited), ": ",
                                     absl::StrJoin(attempts, "; ", [](std::string* out, const Attempt& a) {
                                       absl::StrAppend(out, a.status().message());
                                     }));
  return silent ? absl::DeadlineExceededError(message) : absl::UnavailableError(message);
}

int PollTimeout(const std::vector<Attempt>& attempts, Clock::time_point end, Clock::time_point now) {
  Clock::time_point next = end;
  for (const Attempt& attempt : attempts) next = std::min(next, attempt.next());
  return static_cast<int>(std::max<int64_t>(0, std::chrono::ceil<milliseconds>(next - now).count()));
}

}  // namespace

absl::StatusOr<Fd> ConnectAny(const std::vector<SocketAddress>& to, absl::Time deadline) {
  if (to.empty()) return absl::InvalidArgumentError("no address to connect to");
  const Clock::time_point start = Clock::now();
  // The deadline is told by the wall clock, which may be set meanwhile: the wait is not.
  const absl::Duration wait = std::clamp(deadline - absl::Now(), absl::ZeroDuration(), absl::Hours(24 * 365));
  const Clock::time_point end = start + absl::ToChronoNanoseconds(wait);

  std::vector<Attempt> attempts;
  attempts.reserve(to.size());
  for (const SocketAddress& address : to) attempts.emplace_back(address, start + kHeadStart * attempts.size());
  std::vector<pollfd> polled(to.size());
  while (true) {
    Clock::time_point now = Clock::now();
    for (size_t i = 0; i < attempts.size(); ++i) {
      TUTTI_ASSIGN_OR_RETURN(Fd connected, attempts[i].Advance(now, polled[i].revents != 0));
      if (connected.valid()) return connected;
      const bool failed = !attempts[i].running() && !attempts[i].untried();
      if (failed && i + 1 < attempts.size() && attempts[i + 1].untried()) attempts[i + 1].Hasten(now);
    }
    if (now >= end) return Failure(attempts, wait);
    for (size_t i = 0; i < attempts.size(); ++i) polled[i] = {attempts[i].fd(), POLLOUT, 0};
    if (::poll(polled.data(), polled.size(), PollTimeout(attempts, end, now)) < 0) {
      if (errno != EINTR) return SystemError(errno, "poll");
      for (pollfd& entry : polled) entry.revents = 0;
    }
  }
}

}  // namespace tutti
