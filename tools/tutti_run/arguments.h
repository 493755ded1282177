// The command line of tutti-run.

#ifndef TUTTI_TOOLS_TUTTI_RUN_ARGUMENTS_H_
#define TUTTI_TOOLS_TUTTI_RUN_ARGUMENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tutti::launch {

inline constexpr int kMaxLocalRanks = 1024;
inline constexpr int kMaxNodes = 1 << 16;

struct Arguments {
  int local_ranks = 0;  // on this node; the same on every node
  int nodes = 1;
  int node_rank = 0;
  std::string master_host = "127.0.0.1";
  uint16_t master_port = 0;  // 0: any; only with one node
  std::string job_id;
  absl::Duration grace = absl::Seconds(5);  // from SIGTERM to SIGKILL
  std::vector<std::string> program;         // and its arguments

  std::string answer;  // to --help or --version: print it and end; nothing else is set
};

// kInvalidArgument names the option, the text found and the rule. A job id that was not given is random for one node,
// and made of the master's address for several, where it has to be the same on all.
absl::StatusOr<Arguments> ParseArguments(int argc, const char* const* argv);

}  // namespace tutti::launch

#endif  // TUTTI_TOOLS_TUTTI_RUN_ARGUMENTS_H_
