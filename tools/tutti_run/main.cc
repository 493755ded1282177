// tutti-run: starts the ranks of a job. `tutti-run --help` is the manual.

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "src/base/host.h"
#include "src/base/socket.h"
#include "src/base/status_macros.h"
#include "tools/tutti_run/arguments.h"
#include "tools/tutti_run/guardian.h"
#include "tools/tutti_run/rank_environment.h"
#include "tools/tutti_run/signals.h"
#include "tools/tutti_run/spawn.h"
#include "tools/tutti_run/supervisor.h"

namespace tutti::launch {
namespace {

constexpr int kUsageError = 2, kOtherError = 1, kNotFound = 127, kNotExecutable = 126;

// The numbers 0 to 2 must not be given to anything else.
void OpenStandardStreams() {
  int fd = 0;
  while (fd >= 0 && fd <= STDERR_FILENO) fd = open("/dev/null", O_RDWR);
  if (fd > STDERR_FILENO) close(fd);
}

Variables InheritedVariables() {
  Variables variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
  return variables;
}

absl::StatusOr<Fd> ListenAsMaster(const Arguments& arguments) {
  TUTTI_ASSIGN_OR_RETURN(const auto addresses, Resolve(arguments.master_host, arguments.master_port));
  absl::Status status;
  for (const SocketAddress& address : addresses) {
    absl::StatusOr<Fd> listener = Listen(address);
    if (listener.ok()) return listener;
    status.Update(listener.status());
  }
  return absl::Status(status.code(), absl::StrCat("cannot listen as the master of this job, which node 0 does: ",
                                                  status.message(), " (is ", arguments.master_host,
                                                  " an address of this host, and is no other job, or "
                                                  "node 0 of this one, using the port?)"));
}

int ExitStatusOf(const absl::Status& status) {
  if (absl::IsNotFound(status)) return kNotFound;
  if (absl::IsPermissionDenied(status)) return kNotExecutable;
  return kOtherError;
}

absl::StatusOr<int> RunJob(const Arguments& arguments) {
  const Variables inherited = InheritedVariables();
  TUTTI_ASSIGN_OR_RETURN(Fd signals, OpenSignals());
  TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<Guardian> guardian, Guardian::Start(arguments.local_ranks));
  JobShape shape = {.local_ranks = arguments.local_ranks,
                    .nodes = arguments.nodes,
                    .node_rank = arguments.node_rank,
                    .master_host = arguments.master_host,
                    .master_port = arguments.master_port,
                    .job_id = arguments.job_id,
                    .cpus = UsableCpus()};
  Fd listener;
  if (arguments.node_rank == 0) {
    TUTTI_ASSIGN_OR_RETURN(listener, ListenAsMaster(arguments));
    TUTTI_ASSIGN_OR_RETURN(const SocketAddress bound, LocalAddress(listener.get()));
    shape.master_port = bound.port();
  }

  Supervisor supervisor(std::move(signals), *guardian, arguments.grace);
  supervisor.Say(DescribeJob(inherited, shape));
  for (int local_rank = 0; local_rank < shape.local_ranks; ++local_rank) {
    const int store_fd = listener.get();
    absl::StatusOr<Child> child = Spawn({.program = arguments.program,
                                         .environment = RankEnvironment(inherited, shape, local_rank, store_fd),
                                         .inherited_fd = store_fd});
    listener.Close();  // only the first rank holds it: it is refused, not accepted by nobody, when that rank is gone
    if (!child.ok()) {
      supervisor.FailToStart(absl::StrCat("rank ", shape.rank(local_rank), ": ", child.status().message()),
                             ExitStatusOf(child.status()));
      break;
    }
    supervisor.Add(shape.rank(local_rank), *std::move(child));
  }
  return supervisor.Run();
}

int Main(int argc, char** argv) {
  OpenStandardStreams();
  const absl::StatusOr<Arguments> arguments = ParseArguments(argc, argv);
  if (!arguments.ok()) {
    std::fprintf(stderr, "tutti-run: %s\ntutti-run --help says more\n",
                 std::string(arguments.status().message()).c_str());
    return kUsageError;
  }
  if (!arguments->answer.empty()) {
    std::fputs(arguments->answer.c_str(), stdout);
    return 0;
  }
  const absl::StatusOr<int> exit_status = RunJob(*arguments);
  if (exit_status.ok()) return *exit_status;
  std::fprintf(stderr, "tutti-run: %s\n", std::string(exit_status.status().message()).c_str());
  return kOtherError;
}

}  // namespace
}  // namespace tutti::launch

int main(int argc, char** argv) { return tutti::launch::Main(argc, argv); }
