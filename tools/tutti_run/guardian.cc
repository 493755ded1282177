#include "tools/tutti_run/guardian.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "absl/status/status.h"

namespace tutti::launch {

static_assert(std::atomic<pid_t>::is_always_lock_free, "shared between processes");

absl::StatusOr<std::unique_ptr<Guardian>> Guardian::Start(int slots) {
  const size_t bytes = static_cast<size_t>(slots) * sizeof(std::atomic<pid_t>);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return absl::ErrnoToStatus(errno, "guardian: mmap");
  std::unique_ptr<Guardian> guardian(new Guardian(static_cast<std::atomic<pid_t>*>(memory), slots));  // zero-filled

  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "guardian: pipe");
  Fd end(ends[0]);
  guardian->lifeline_ = Fd(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) return absl::ErrnoToStatus(errno, "guardian: fork");
  if (pid == 0) {
    setsid();
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);
    prctl(PR_SET_NAME, "tutti-guardian");
    guardian->lifeline_.Close();
    char byte;
    while (read(end.get(), &byte, 1) < 0 && errno == EINTR) {
    }
    guardian->KillAll();
    _exit(0);
  }
  guardian->pid_ = pid;
  return guardian;
}

Guardian::~Guardian() {
  lifeline_.Close();
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
  munmap(groups_, static_cast<size_t>(slots_) * sizeof(std::atomic<pid_t>));
}

void Guardian::KillAll() const {
  for (int slot = 0; slot < slots_; ++slot) {
    if (const pid_t group = groups_[slot]; group > 0) kill(-group, SIGKILL);
  }
}

}  // namespace tutti::launch
