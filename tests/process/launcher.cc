#include "tests/process/launcher.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"

namespace tutti {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(60);

std::string NextMark() {
  static int count = 0;
  return absl::StrCat("TUTTI_TEST_MARK=", getpid(), "-", ++count);
}

// In the child.
[[noreturn]] void Execute(std::vector<std::string> command, const std::string& mark, const Launcher::Options& options,
                          int out, int err) {
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  for (const std::string& name : options.unset) unsetenv(name.c_str());
  for (std::string variable : options.set) putenv(strdup(variable.c_str()));
  putenv(strdup(mark.c_str()));
  for (int number : options.ignored_signals) signal(number, SIG_IGN);
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  _exit(99);
}

// False when the stream has ended.
bool ReadSome(Fd& fd, std::string& text) {
  char bytes[64 << 10];
  const ssize_t n = read(fd.get(), bytes, sizeof(bytes));
  if (n > 0) text.append(bytes, static_cast<size_t>(n));
  if (n == 0) fd.Close();
  return n > 0;
}

int Milliseconds(absl::Time until) {
  return static_cast<int>(std::max<int64_t>(0, absl::ToInt64Milliseconds(until - absl::Now())));
}

}  // namespace

Launcher::Launcher(std::vector<std::string> arguments) : Launcher(std::move(arguments), Options()) {}

Launcher::Launcher(std::vector<std::string> arguments, const Options& options) : mark_(NextMark()) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::vector<std::string> command = options.wrapper;
  command.push_back(TUTTI_RUN_BINARY);
  command.insert(command.end(), arguments.begin(), arguments.end());
  int out[2], err[2];
  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) return;
  out_ = Fd(out[0]);
  err_ = Fd(err[0]);
  const Fd out_end(out[1]), err_end(err[1]);
  pid_ = fork();
  if (pid_ == 0) Execute(std::move(command), mark_, options, out_end.get(), err_end.get());
  pidfd_ = Fd(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
}

Launcher::~Launcher() {
  for (pid_t pid : Processes()) kill(pid, SIGKILL);
  WaitForAll();
}

void Launcher::Signal(int number) { kill(pid_, number); }

bool Launcher::Prints(const std::string& text) { return ReadUntil(text, absl::Now() + kLimit); }

bool Launcher::EndsWithin(absl::Duration limit) {
  pollfd polled = {pidfd_.get(), POLLIN, 0};
  return poll(&polled, 1, Milliseconds(absl::Now() + limit)) > 0;
}

bool Launcher::ReadUntil(const std::string& text, absl::Time deadline) {
  while (text.empty() || !(absl::StrContains(out_text_, text) || absl::StrContains(err_text_, text))) {
    if (!out_.valid() && !err_.valid()) return false;
    pollfd polled[] = {{out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}};  // poll ignores -1
    if (poll(polled, 2, Milliseconds(deadline)) <= 0) return false;
    if (polled[0].revents != 0) ReadSome(out_, out_text_);
    if (polled[1].revents != 0) ReadSome(err_, err_text_);
  }
  return true;
}

Launcher::End Launcher::Wait() {
  const absl::Time start = absl::Now();
  ReadUntil("", start + kLimit);
  if (!EndsWithin(start + kLimit - absl::Now())) Signal(SIGKILL);
  int status = 0;
  End end;
  if (waitpid(pid_, &status, 0) == pid_) {
    end.exit_status = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }
  end.elapsed = absl::Now() - start;
  end.out = out_text_;
  end.err = err_text_;
  return end;
}

std::vector<pid_t> Launcher::Processes() const {
  std::vector<pid_t> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(opendir("/proc"), closedir);
  while (const dirent* entry = readdir(proc.get())) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(entry->d_name, &pid)) continue;
    std::ifstream file(absl::StrCat("/proc/", pid, "/environ"), std::ios::binary);
    const std::string variables{std::istreambuf_iterator<char>(file), {}};
    for (absl::string_view variable : absl::StrSplit(variables, '\0')) {
      if (variable == mark_) found.push_back(pid);
    }
  }
  return found;
}

absl::Duration Launcher::WaitForAll() {
  const absl::Time start = absl::Now();
  while (waitpid(-1, nullptr, 0) > 0 || errno == EINTR) {
  }
  return absl::Now() - start;
}

std::vector<std::string> SortedLines(const std::string& text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  std::sort(lines.begin(), lines.end());
  return lines;
}

}  // namespace tutti
