// The signals that the launcher obeys.

#ifndef TUTTI_TOOLS_TUTTI_RUN_SIGNALS_H_
#define TUTTI_TOOLS_TUTTI_RUN_SIGNALS_H_

#include "absl/status/statusor.h"
#include "src/base/fd.h"

namespace tutti::launch {

// A signalfd, non-blocking, of SIGCHLD, SIGINT, SIGTERM and SIGHUP, which are blocked from here on. SIGINT is obeyed
// also if it was ignored at the start, as it is behind a shell's "&"; an ignored SIGHUP is left ignored: that is what
// nohup asks for. SIGPIPE is ignored.
absl::StatusOr<Fd> OpenSignals();

}  // namespace tutti::launch

#endif  // TUTTI_TOOLS_TUTTI_RUN_SIGNALS_H_
