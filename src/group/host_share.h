// HostShare: what the ranks of one host have of its processors.

#ifndef TUTTI_SRC_GROUP_HOST_SHARE_H_
#define TUTTI_SRC_GROUP_HOST_SHARE_H_

#include <optional>
#include <string>
#include <vector>

#include "src/rendezvous/membership.h"

namespace tutti {

struct HostShare {
  int ranks = 0;
  int cpus = 0;  // on which any of them may run
  // Then who waits does better to let others run.
  bool oversubscribed() const { return ranks > cpus; }
};

// Ranks that are bound to processors of their own have as many as all of them together. That counts all ranks under one
// kernel: containers, and hosts that are only pretended, take turns on its processors. `quota`: that of this rank's
// cgroup, in processors, which is taken to be that of all ranks with its host id together.
HostShare ShareOfHost(const std::vector<Member>& members, const Identity& self, std::optional<int> quota);

// "2 ranks of this host on 1 processor"
std::string ToString(const HostShare& share);

}  // namespace tutti

#endif  // TUTTI_SRC_GROUP_HOST_SHARE_H_
