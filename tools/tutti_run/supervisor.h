// Supervisor: sees the ranks of this node through to their end, and passes on what they print.
//
// One thread, one poll loop; nothing in it blocks. Its states, from first to last, and what leads to each:
//
//   running      the start
//   settling     a rank failed: the others may end by themselves
//   terminating  SIGTERM sent: a stop signal, a settling that took too long, or all ranks ended but not what they
//   started killing      SIGKILL sent: the grace time is over, or a second SIGINT flushing     no process is left (or
//   killing was of no use): the reader of the output has to take the rest of it done

#ifndef TUTTI_TOOLS_TUTTI_RUN_SUPERVISOR_H_
#define TUTTI_TOOLS_TUTTI_RUN_SUPERVISOR_H_

#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "src/base/fd.h"
#include "tools/tutti_run/guardian.h"
#include "tools/tutti_run/line_prefixer.h"
#include "tools/tutti_run/output_stream.h"
#include "tools/tutti_run/spawn.h"

namespace tutti::launch {

inline constexpr absl::Duration kSettleTime = absl::Seconds(2);

class Supervisor {
 public:
  // `signals` is from OpenSignals. The guardian must outlive the supervisor. Makes this process the new parent of what
  // its ranks leave behind, so that a process group is known to be gone when its members are reaped.
  Supervisor(Fd signals, Guardian& guardian, absl::Duration grace);

  // A line of the launcher itself, to standard error.
  void Say(absl::string_view line);
  // Takes over a rank that runs.
  void Add(int rank, Child child);
  // The job has failed before all ranks ran: those that do are stopped, and Run returns `exit_status`.
  void FailToStart(absl::string_view why, int exit_status);
  // Returns the exit status of the job when all its processes are gone.
  int Run();

 private:
  enum class Phase { kRunning, kSettling, kTerminating, kKilling, kFlushing, kDone };

  struct Source {  // one output of one rank
    Fd pipe;
    LinePrefixer lines;
    OutputStream* to;
  };
  struct Rank {
    int rank;
    pid_t pid;
    bool ended = false;       // and reaped
    bool group_gone = false;  // no process of its group is left
    std::array<Source, 2> sources;
  };

  void WaitForEvents();
  void ReadSignals();
  void Reap(pid_t first);
  void OnEnd(pid_t pid, int status);
  void OnStopSignal(int number);

  void ReadOnce(Source& source);
  void Drain(Source& source);

  void Advance();
  void Enter(Phase phase, absl::Duration at_most);
  void SignalGroups(int number);
  void FindGroupsGone();
  void ReportLeftovers();
  bool AllEnded() const;
  bool AllGroupsGone() const;

  const Fd signals_;
  Guardian& guardian_;
  const absl::Duration grace_;
  OutputStream out_{STDOUT_FILENO};
  OutputStream err_{STDERR_FILENO};
  std::vector<Rank> ranks_;

  Phase phase_ = Phase::kRunning;
  absl::Time deadline_ = absl::InfiniteFuture();  // of the phase
  std::optional<int> exit_status_;                // decided by the first failure or stop signal
  bool stopped_ = false;                          // by a signal
  absl::Time interrupted_ = absl::InfiniteFuture();
};

}  // namespace tutti::launch

#endif  // TUTTI_TOOLS_TUTTI_RUN_SUPERVISOR_H_
