// Split: from a group to the groups that its ranks form by color.
//
// The ranks exchange, by one all-gather of the parent, what they ask for and where each of them listens. Each then
// knows who is in its group, and that rank 0 of it serves the membership at the address that it has told; the others
// use their listener for data. So neither the store nor any rank outside the new group is needed from there on.

#ifndef TUTTI_SRC_GROUP_SPLIT_H_
#define TUTTI_SRC_GROUP_SPLIT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "src/group/job_group.h"
#include "src/identity/hello.h"
#include "tutti/process_group.h"

namespace tutti {

// The group that is split.
struct SplitParent {
  std::shared_ptr<const JobProcess> process;
  std::string name;
  Identity self;
  bool oversubscribed = false;       // see JobGroupPlan
  std::atomic<uint32_t> splits = 0;  // so far
};

// ProcessGroup::Split.
absl::StatusOr<std::unique_ptr<ProcessGroup>> SplitGroup(SplitParent& parent, ProcessGroup& group, int color, int key);

}  // namespace tutti

#endif  // TUTTI_SRC_GROUP_SPLIT_H_
