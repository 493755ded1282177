// What this process and this machine are.

#ifndef TUTTI_SRC_BASE_HOST_H_
#define TUTTI_SRC_BASE_HOST_H_

#include <cstdint>
#include <string>

namespace tutti {

struct HostInfo {
  std::string hostname;
  std::string boot_id;  // of the running kernel: two containers of one machine share it
  int64_t pid = 0;
};
HostInfo ThisHost();

// Processors this process may use: its affinity mask, limited by its cgroup's CPU quota, at least 1.
int UsableCpus();

}  // namespace tutti

#endif  // TUTTI_SRC_BASE_HOST_H_
