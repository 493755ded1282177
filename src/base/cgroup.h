// CPU limits of control groups, versions 1 and 2.

#ifndef TUTTI_SRC_BASE_CGROUP_H_
#define TUTTI_SRC_BASE_CGROUP_H_

#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace tutti {

// The least CPU quota from the process's group up to the root, in processors, rounded up and at least 1; none if
// nothing limits it. `self_cgroup` is the text of /proc/self/cgroup; `read` gives the text of a file, or none.
//
// In a container the path may be the host's, of which only the last part is mounted: files that are not there are
// passed over, and the mount's root is the container's own group.
std::optional<int> CgroupCpuLimit(absl::string_view self_cgroup,
                                  absl::FunctionRef<std::optional<std::string>(const std::string& path)> read);

}  // namespace tutti

#endif  // TUTTI_SRC_BASE_CGROUP_H_
