// ProcessGroup::Batch.

#ifndef TUTTI_SRC_GROUP_BATCH_H_
#define TUTTI_SRC_GROUP_BATCH_H_

#include "absl/functional/function_ref.h"
#include "src/engine/engine.h"
#include "src/group/calls.h"

namespace tutti {

// Collects what `calls` calls, and has the engine of `group` issue it as one.
Work RunBatch(ProcessGroup& group, const CollectiveCalls::Scope& scope, Engine& engine,
              absl::FunctionRef<void(ProcessGroup& batch)> calls);

}  // namespace tutti

#endif  // TUTTI_SRC_GROUP_BATCH_H_
