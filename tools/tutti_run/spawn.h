// Starting one rank.

#ifndef TUTTI_TOOLS_TUTTI_RUN_SPAWN_H_
#define TUTTI_TOOLS_TUTTI_RUN_SPAWN_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/fd.h"

namespace tutti::launch {

struct Command {
  std::vector<std::string> program;      // and its arguments; looked up in PATH
  std::vector<std::string> environment;  // "NAME=value"
  int inherited_fd = -1;                 // stays open in the child, under the same number; -1: none
};

struct Child {
  pid_t pid = 0;  // leads a process group of its own
  Fd out, err;    // non-blocking read ends of its standard output and standard error
};

// Returns once the program runs. It has default signal dispositions, an empty signal mask and an empty standard input,
// and dies with the calling process, which has one thread only. kNotFound: there is no such program; kPermissionDenied:
// it cannot be executed.
absl::StatusOr<Child> Spawn(const Command& command);

}  // namespace tutti::launch

#endif  // TUTTI_TOOLS_TUTTI_RUN_SPAWN_H_
