#include "tools/tutti_run/signals.h"

#include <sys/signalfd.h>

#include <cerrno>
#include <csignal>

#include "absl/status/status.h"

namespace tutti::launch {

absl::StatusOr<Fd> OpenSignals() {
  signal(SIGPIPE, SIG_IGN);
  // Where these are inherited as ignored, children would vanish without a status, and interrupts without an effect.
  signal(SIGCHLD, SIG_DFL);
  signal(SIGINT, SIG_DFL);
  sigset_t obeyed;
  sigemptyset(&obeyed);
  for (int number : {SIGCHLD, SIGINT, SIGTERM}) sigaddset(&obeyed, number);
  struct sigaction hang_up;
  sigaction(SIGHUP, nullptr, &hang_up);
  if (hang_up.sa_handler != SIG_IGN) sigaddset(&obeyed, SIGHUP);
  sigprocmask(SIG_SETMASK, &obeyed, nullptr);
  Fd fd(signalfd(-1, &obeyed, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "signalfd");
  return fd;
}

}  // namespace tutti::launch
