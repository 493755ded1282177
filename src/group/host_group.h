// HostGroup: the ProcessGroup of our own engine, over one endpoint.

#ifndef TUTTI_SRC_GROUP_HOST_GROUP_H_
#define TUTTI_SRC_GROUP_HOST_GROUP_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "src/engine/engine.h"
#include "src/observe/journal.h"
#include "src/transport/shm/buffer_registry.h"
#include "src/transport/transport.h"
#include "tutti/process_group.h"

namespace tutti {

// Brings the verdict to the engine, which is made after those who may pronounce it. Thread-safe.
class VerdictRelay {
 public:
  void Pronounce(absl::Status verdict);
  // Null: nobody takes it any more. Once it returns, the former engine is not called again.
  void SetEngine(Engine* engine);

 private:
  absl::Mutex mutex_;
  Engine* engine_ ABSL_GUARDED_BY(mutex_) = nullptr;
  absl::Status early_ ABSL_GUARDED_BY(mutex_);
};

// What connects a group to the other ranks besides its endpoint, and must outlive the engine: reports trouble, and
// pronounces the verdict through the relay.
class ControlPlane {
 public:
  virtual ~ControlPlane() = default;  // leaves the group in order; bounded
  virtual void Report(const Trouble& trouble) = 0;
  virtual void Abort(absl::Status why) = 0;
  // ProcessGroup::Split of the group that this controls.
  virtual absl::StatusOr<std::unique_ptr<ProcessGroup>> Split(ProcessGroup& parent, int color, int key) = 0;
  virtual std::vector<std::string> Describe() const = 0;
};

struct HostGroupParts {
  std::unique_ptr<Journal> journal = std::make_unique<Journal>();
  std::shared_ptr<VerdictRelay> relay = std::make_shared<VerdictRelay>();
  std::unique_ptr<ControlPlane> control;  // may be null: a rank's own view is the verdict, and nothing can be split off
  std::unique_ptr<Endpoint> endpoint;
  std::shared_ptr<BufferRegistry> buffers;  // for Allocate; null: memory of no other use
  EngineOptions engine;
  absl::Duration timeout = absl::Minutes(5);
};

std::unique_ptr<ProcessGroup> MakeHostGroup(HostGroupParts parts);

}  // namespace tutti

#endif  // TUTTI_SRC_GROUP_HOST_GROUP_H_
