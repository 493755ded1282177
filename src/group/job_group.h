// JobGroup: a group of processes of one job: over tcp, with a membership, and able to be split.

#ifndef TUTTI_SRC_GROUP_JOB_GROUP_H_
#define TUTTI_SRC_GROUP_JOB_GROUP_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "src/base/event_loop.h"
#include "src/base/fd.h"
#include "src/base/socket.h"
#include "src/engine/selection.h"
#include "src/identity/hello.h"
#include "src/rendezvous/environment.h"
#include "src/store/store.h"
#include "src/transport/shm/buffer_registry.h"
#include "tutti/process_group.h"

namespace tutti {

// What a process's groups that come from one rendezvous share.
struct JobProcess {
  std::shared_ptr<EventLoop> loop;
  Settings settings;      // where all ranks must agree, rank 0's
  SocketAddress address;  // of this host, for listeners; port 0
  SelectionTable selection;
  std::shared_ptr<BufferRegistry> buffers = BufferRegistry::Create();
};

// Where the membership of a new group meets: in the store, or at an address that its ranks know.
struct MembershipPlace {
  std::unique_ptr<Store> store;  // null: at the address
  SocketAddress server;
  Fd listener;  // rank 0's, which listens at the address
};

struct JobGroupPlan {
  std::shared_ptr<const JobProcess> process;
  std::string name;  // as messages give it: "split 1, color 0"; "" for that of all ranks
  Identity self;     // in this group
  Fd listener;       // for data; invalid: one is opened
  MembershipPlace place;
  bool oversubscribed = false;  // known without the membership: more ranks on this host than processors for them
  std::vector<std::string> choices;
  absl::Time deadline;
};

// A collective of all members of the group; returns when all have joined.
absl::StatusOr<std::unique_ptr<ProcessGroup>> JoinGroup(JobGroupPlan plan);

}  // namespace tutti

#endif  // TUTTI_SRC_GROUP_JOB_GROUP_H_
