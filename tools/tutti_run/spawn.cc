#include "tools/tutti_run/spawn.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/base/status_macros.h"

namespace tutti::launch {
namespace {

struct Pipe {
  Fd read, write;
};

absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

void ResetSignals() {
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

// In the child. Returns only if it fails, with errno set.
void Become(const Command& command, pid_t launcher, int in, int out, int err) {
  setpgid(0, 0);
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return;
  if (getppid() != launcher) raise(SIGKILL);  // it died before the line above
  if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0) return;
  if (command.inherited_fd >= 0 && fcntl(command.inherited_fd, F_SETFD, 0) != 0) return;
  ResetSignals();
  execvpe(command.program[0].c_str(), Pointers(command.program).data(), Pointers(command.environment).data());
}

absl::Status CannotStart(const std::string& program, int error) {
  const std::string message = absl::StrCat("cannot start ", program, ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  return absl::PermissionDeniedError(message);
}

}  // namespace

absl::StatusOr<Child> Spawn(const Command& command) {
  const Fd in(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!in.valid()) return absl::ErrnoToStatus(errno, "/dev/null");
  TUTTI_ASSIGN_OR_RETURN(Pipe out, MakePipe());
  TUTTI_ASSIGN_OR_RETURN(Pipe err, MakePipe());
  TUTTI_ASSIGN_OR_RETURN(Pipe failure, MakePipe());  // closed by a successful exec, or else carries errno
  for (int fd : {out.read.get(), err.read.get()}) fcntl(fd, F_SETFL, O_NONBLOCK);

  const pid_t launcher = getpid();
  const pid_t pid = fork();
  if (pid < 0) return absl::ErrnoToStatus(errno, "fork");
  if (pid == 0) {
    Become(command, launcher, in.get(), out.write.get(), err.write.get());
    const int error = errno;
    [[maybe_unused]] const ssize_t n = write(failure.write.get(), &error, sizeof(error));
    _exit(127);
  }
  setpgid(pid, pid);  // in both processes: neither may run ahead of it
  failure.write.Close();
  int error = 0;
  ssize_t n = 0;
  do {
    n = read(failure.read.get(), &error, sizeof(error));
  } while (n < 0 && errno == EINTR);
  if (n == sizeof(error)) {
    waitpid(pid, nullptr, 0);
    return CannotStart(command.program[0], error);
  }
  return Child{pid, std::move(out.read), std::move(err.read)};
}

}  // namespace tutti::launch
