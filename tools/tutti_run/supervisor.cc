#include "tools/tutti_run/supervisor.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace tutti::launch {
namespace {

constexpr absl::Duration kKillTime = absl::Seconds(2);              // for SIGKILL to take effect
constexpr absl::Duration kFlushTime = absl::Milliseconds(500);      // for the reader of a stopped job's output
constexpr absl::Duration kKeyboardBounce = absl::Milliseconds(50);  // `timeout -s INT` sends each signal twice

int ExitStatus(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

std::string DescribeEnd(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return absl::StrCat("exited with status ", WEXITSTATUS(wait_status));
  const int number = WTERMSIG(wait_status);
  return absl::StrCat("was killed by signal ", number, " (", strsignal(number), ")",
                      WCOREDUMP(wait_status) ? ", core dumped" : "");
}

}  // namespace

Supervisor::Supervisor(Fd signals, Guardian& guardian, absl::Duration grace)
    : signals_(std::move(signals)), guardian_(guardian), grace_(grace) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
}

void Supervisor::Say(absl::string_view line) { err_.Write(absl::StrCat("tutti-run: ", line, "\n")); }

void Supervisor::Add(int rank, Child child) {
  guardian_.Watch(static_cast<int>(ranks_.size()), child.pid);
  const LinePrefixer lines(absl::StrCat("[", rank, "] "));
  ranks_.push_back(
      {.rank = rank,
       .pid = child.pid,
       .sources = {Source{std::move(child.out), lines, &out_}, Source{std::move(child.err), lines, &err_}}});
}

void Supervisor::FailToStart(absl::string_view why, int exit_status) {
  Say(why);
  exit_status_ = exit_status;
  SignalGroups(SIGTERM);
  Enter(Phase::kTerminating, grace_);
}

int Supervisor::Run() {
  for (Advance(); phase_ != Phase::kDone; Advance()) WaitForEvents();
  if (const int error = out_.error(); error != 0 && !out_.broken()) {
    Say(absl::StrCat("standard output: ", std::strerror(error), "; what followed was lost"));
  }
  return exit_status_.value_or(0);
}

void Supervisor::WaitForEvents() {
  std::vector<pollfd> polled = {{signals_.get(), POLLIN, 0}};
  for (OutputStream* stream : {&out_, &err_}) {
    if (stream->blocked()) polled.push_back({stream->fd(), POLLOUT, 0});
  }
  std::vector<Source*> sources;
  for (Rank& rank : ranks_) {
    for (Source& source : rank.sources) {
      if (source.to->broken()) source.pipe.Close();  // so that the rank hears of it, as in any pipeline
      if (!source.pipe.valid() || source.to->blocked()) continue;
      sources.push_back(&source);
      polled.push_back({source.pipe.get(), POLLIN, 0});
    }
  }

  timespec timeout = absl::ToTimespec(std::max(deadline_ - absl::Now(), absl::ZeroDuration()));
  const int ready =
      ppoll(polled.data(), polled.size(), deadline_ == absl::InfiniteFuture() ? nullptr : &timeout, nullptr);
  if (ready <= 0) return;
  for (OutputStream* stream : {&out_, &err_}) stream->Flush();
  const size_t first_source = polled.size() - sources.size();
  for (size_t i = 0; i < sources.size(); ++i) {
    if (polled[first_source + i].revents != 0) ReadOnce(*sources[i]);
  }
  if (polled[0].revents != 0) ReadSignals();
}

void Supervisor::ReadSignals() {
  signalfd_siginfo info;
  while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
    if (info.ssi_signo == SIGCHLD) {
      Reap(static_cast<pid_t>(info.ssi_pid));
    } else {
      OnStopSignal(static_cast<int>(info.ssi_signo));
    }
  }
}

// Signals do not queue: of several ends only the first is told, which is the one that must be named as the first.
void Supervisor::Reap(pid_t first) {
  int status = 0;
  if (const pid_t pid = waitpid(first, &status, WNOHANG); pid > 0) OnEnd(pid, status);
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) OnEnd(pid, status);
  FindGroupsGone();
}

void Supervisor::OnEnd(pid_t pid, int status) {
  const auto rank = std::find_if(ranks_.begin(), ranks_.end(), [&](const Rank& r) { return r.pid == pid; });
  if (rank == ranks_.end() || rank->ended) return;  // something that a rank left behind
  rank->ended = true;
  for (Source& source : rank->sources) Drain(source);
  if (ExitStatus(status) == 0 || exit_status_.has_value()) return;
  exit_status_ = ExitStatus(status);
  Say(absl::StrCat("rank ", rank->rank, " (pid ", pid, ") ", DescribeEnd(status)));
  if (phase_ == Phase::kRunning) Enter(Phase::kSettling, kSettleTime);
}

void Supervisor::OnStopSignal(int number) {
  const absl::Time now = absl::Now();
  const bool again = number == SIGINT && now - interrupted_ > kKeyboardBounce;
  if (number == SIGINT) interrupted_ = std::min(interrupted_, now);
  if (!exit_status_.has_value()) exit_status_ = 128 + number;
  stopped_ = true;
  if (phase_ == Phase::kFlushing) {
    deadline_ = now;
  } else if (phase_ < Phase::kTerminating) {
    Say(absl::StrCat("stopping the ranks after signal ", number, " (", strsignal(number), ")",
                     number == SIGINT ? "; once more to kill them" : ""));
    SignalGroups(SIGTERM);
    Enter(Phase::kTerminating, grace_);
  } else if (phase_ == Phase::kTerminating && again) {
    SignalGroups(SIGKILL);
    Enter(Phase::kKilling, kKillTime);
  }
}

void Supervisor::ReadOnce(Source& source) {
  char bytes[64 << 10];
  const ssize_t n = read(source.pipe.get(), bytes, sizeof(bytes));
  if (n > 0) {
    source.to->Write(source.lines.Append({bytes, static_cast<size_t>(n)}));
  } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
    source.to->Write(source.lines.Finish());
    source.pipe.Close();
  }
}

// What the rank has written before it ended, and no more: something it left behind may hold the pipe open for ever.
void Supervisor::Drain(Source& source) {
  int available = 0;
  if (source.pipe.valid() && ioctl(source.pipe.get(), FIONREAD, &available) == 0) {
    std::string bytes(static_cast<size_t>(available), '\0');
    const ssize_t n = read(source.pipe.get(), bytes.data(), bytes.size());
    if (n > 0) source.to->Write(source.lines.Append({bytes.data(), static_cast<size_t>(n)}));
  }
  source.to->Write(source.lines.Finish());
  source.pipe.Close();
}

void Supervisor::Advance() {
  if (phase_ < Phase::kFlushing && AllGroupsGone()) {
    Enter(Phase::kFlushing, stopped_ ? kFlushTime : absl::InfiniteDuration());
  }
  const auto late = [this] { return absl::Now() >= deadline_; };
  if ((phase_ == Phase::kSettling && late()) || (phase_ < Phase::kTerminating && AllEnded())) {
    if (!AllEnded()) Say("stopping the other ranks");
    SignalGroups(SIGTERM);
    Enter(Phase::kTerminating, grace_);
  } else if (phase_ == Phase::kTerminating && late()) {
    SignalGroups(SIGKILL);
    Enter(Phase::kKilling, kKillTime);
  } else if (phase_ == Phase::kKilling && late()) {
    ReportLeftovers();
    Enter(Phase::kFlushing, kFlushTime);
  }
  if (phase_ == Phase::kFlushing && (late() || !(out_.blocked() || err_.blocked()))) phase_ = Phase::kDone;
}

void Supervisor::Enter(Phase phase, absl::Duration at_most) {
  phase_ = phase;
  deadline_ = absl::Now() + at_most;
}

void Supervisor::SignalGroups(int number) {
  for (const Rank& rank : ranks_) {
    if (rank.group_gone) continue;
    kill(-rank.pid, number);
    kill(-rank.pid, SIGCONT);  // a stopped process would not see SIGTERM
  }
}

// The leader's number is not given to another process as long as its group has a member, dead or alive, that is not
// reaped. This process reaps the last one, since it inherits them all, and then looks here at once.
void Supervisor::FindGroupsGone() {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    if (!rank.ended || rank.group_gone || kill(-rank.pid, 0) == 0 || errno != ESRCH) continue;
    rank.group_gone = true;
    guardian_.Forget(static_cast<int>(i));
  }
}

void Supervisor::ReportLeftovers() {
  for (const Rank& rank : ranks_) {
    if (!rank.group_gone)
      Say(absl::StrCat("processes of rank ", rank.rank, " (group ", rank.pid, ") cannot be killed"));
  }
}

bool Supervisor::AllEnded() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.ended; });
}

bool Supervisor::AllGroupsGone() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.group_gone; });
}

}  // namespace tutti::launch
