// HostShare: what the ranks of one host have of its processors.

#ifndef TUTTI_SRC_GROUP_HOST_SHARE_H_
#define TUTTI_SRC_GROUP_HOST_SHARE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "src/rendezvous/membership.h"

namespace tutti {

struct HostShare {
  int ranks = 0;
  int cpus = 0;  // on which any of them may run
  // Then who waits does better to let others run.
  bool oversubscribed() const { return ranks > cpus; }
};

// Ranks that are bound to processors of their own have as many as all of them together. `quota`: that of this rank's
// cgroup, in processors, which is taken to be the others' as well.
HostShare ShareOfHost(const std::vector<Member>& members, absl::string_view host_id, std::optional<int> quota);

// "2 ranks of this host on 1 processor"
std::string ToString(const HostShare& share);

}  // namespace tutti

#endif  // TUTTI_SRC_GROUP_HOST_SHARE_H_
