#include "tools/tutti_run/rank_environment.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tutti::launch {
namespace {

absl::string_view NameOf(absl::string_view variable) { return variable.substr(0, variable.find('=')); }

// Started from within an allocation or another job, these would contradict what this launcher says.
bool SpeaksOfAnotherJob(absl::string_view name) {
  for (absl::string_view prefix : {"OMPI_COMM_WORLD_", "PMI_", "PMIX_"}) {
    if (absl::StartsWith(name, prefix)) return true;
  }
  for (absl::string_view other : {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NTASKS", "SLURM_NPROCS",
                                  "SLURM_STEP_NUM_TASKS", "TUTTI_STORE_FD"}) {
    if (name == other) return true;
  }
  return false;
}

}  // namespace

std::optional<std::string> Find(const Variables& variables, absl::string_view name) {
  for (absl::string_view variable : variables) {
    if (NameOf(variable) == name && variable.size() > name.size()) return std::string(variable.substr(name.size() + 1));
  }
  return std::nullopt;
}

Variables RankEnvironment(const Variables& inherited, const JobShape& shape, int local_rank, int store_fd) {
  Variables own = {
      absl::StrCat("RANK=", shape.rank(local_rank)),   absl::StrCat("WORLD_SIZE=", shape.world_size()),
      absl::StrCat("LOCAL_RANK=", local_rank),         absl::StrCat("LOCAL_WORLD_SIZE=", shape.local_ranks),
      absl::StrCat("MASTER_ADDR=", shape.master_host), absl::StrCat("MASTER_PORT=", shape.master_port),
      absl::StrCat("TUTTI_JOB_ID=", shape.job_id),
  };
  if (store_fd >= 0) own.push_back(absl::StrCat("TUTTI_STORE_FD=", store_fd));
  if (!Find(inherited, "OMP_NUM_THREADS")) own.push_back(absl::StrCat("OMP_NUM_THREADS=", shape.threads_per_rank()));

  Variables result;
  for (const std::string& variable : inherited) {
    const absl::string_view name = NameOf(variable);
    const bool replaced = std::any_of(own.begin(), own.end(), [&](const auto& ours) { return NameOf(ours) == name; });
    if (!replaced && !SpeaksOfAnotherJob(name)) result.push_back(variable);
  }
  result.insert(result.end(), own.begin(), own.end());
  return result;
}

std::string DescribeJob(const Variables& inherited, const JobShape& shape) {
  const std::string ranks =
      shape.nodes == 1 ? absl::StrCat(shape.local_ranks, shape.local_ranks == 1 ? " rank" : " ranks")
                       : absl::StrCat("ranks ", shape.rank(0), " to ", shape.rank(shape.local_ranks - 1), " of ",
                                      shape.world_size(), " (node ", shape.node_rank, " of ", shape.nodes, ")");
  const bool ipv6 = absl::StrContains(shape.master_host, ':');
  const std::optional<std::string> kept = Find(inherited, "OMP_NUM_THREADS");
  const std::string threads = kept ? absl::StrCat("OMP_NUM_THREADS=\"", absl::CHexEscape(*kept), "\" (was set, kept)")
                                   : absl::StrCat("OMP_NUM_THREADS=", shape.threads_per_rank(), " (", shape.cpus,
                                                  " cpus / ", shape.local_ranks, " ranks)");
  return absl::StrCat(ranks, ", master ", ipv6 ? "[" : "", shape.master_host, ipv6 ? "]" : "", ":", shape.master_port,
                      ", ", threads);
}

}  // namespace tutti::launch
