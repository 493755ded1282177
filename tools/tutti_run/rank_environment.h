// The environment of the ranks: a pure function of the launcher's own environment and the shape of the job.

#ifndef TUTTI_TOOLS_TUTTI_RUN_RANK_ENVIRONMENT_H_
#define TUTTI_TOOLS_TUTTI_RUN_RANK_ENVIRONMENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tutti::launch {

struct JobShape {
  int local_ranks = 1;
  int nodes = 1;
  int node_rank = 0;
  std::string master_host;
  uint16_t master_port = 0;
  std::string job_id;
  int cpus = 1;  // that this process may use

  int world_size() const { return local_ranks * nodes; }
  int rank(int local_rank) const { return node_rank * local_ranks + local_rank; }
  int threads_per_rank() const { return cpus / local_ranks > 1 ? cpus / local_ranks : 1; }
};

using Variables = std::vector<std::string>;  // "NAME=value"

std::optional<std::string> Find(const Variables& variables, absl::string_view name);

// What the rank gets: the inherited variables, without any that speak of a rank, a master or a job of another launcher,
// and those of this job. `store_fd` is the descriptor of the master's listening socket in that process; -1: none.
// OMP_NUM_THREADS is set to threads_per_rank() unless it is inherited, whatever its value.
Variables RankEnvironment(const Variables& inherited, const JobShape& shape, int local_rank, int store_fd);

// "4 ranks, master 127.0.0.1:41234, OMP_NUM_THREADS=1 (2 cpus / 4 ranks)".
std::string DescribeJob(const Variables& inherited, const JobShape& shape);

}  // namespace tutti::launch

#endif  // TUTTI_TOOLS_TUTTI_RUN_RANK_ENVIRONMENT_H_
