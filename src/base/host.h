// What this process and this machine are.

#ifndef TUTTI_SRC_BASE_HOST_H_
#define TUTTI_SRC_BASE_HOST_H_

#include <cstdint>
#include <optional>
#include <string>

#include "src/base/cpu_set.h"

namespace tutti {

struct HostInfo {
  std::string hostname;
  std::string boot_id;  // of the running kernel: two containers of one machine share it
  int64_t pid = 0;
};
HostInfo ThisHost();

// In the calling thread's affinity mask, at least one.
CpuSet AllowedCpus();
// Of this process's cgroup, in processors: see CgroupCpuLimit.
std::optional<int> CpuQuota();
// How many processors this process may use: those allowed, limited by the quota, at least 1.
int UsableCpus();

}  // namespace tutti

#endif  // TUTTI_SRC_BASE_HOST_H_
