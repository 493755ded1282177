// EngineOperation: one operation from its call to its end; and the pool that recycles them.

#ifndef TUTTI_SRC_ENGINE_OPERATION_H_
#define TUTTI_SRC_ENGINE_OPERATION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "src/engine/layout.h"
#include "src/engine/program.h"
#include "src/engine/selection.h"
#include "src/observe/journal.h"
#include "src/reduce/reduce.h"
#include "src/transport/transport.h"
#include "tutti/work.h"

namespace tutti {

// What an operation is to do. Operands as ProcessGroup documents them, already checked.
struct OperationRequest {
  Collective collective = Collective::kBarrier;
  ReduceOp op = ReduceOp::kSum;
  DataType type = DataType::kUInt8;
  uint64_t count = 0;  // of the operand, or of one block
  int root = 0;        // broadcast: the root; send, recv: the peer
  double divisor = 1;
  const void* input = nullptr;
  void* output = nullptr;
  absl::Duration timeout = absl::InfiniteDuration();
  bool background = false;
};

class EngineOperation;

// Blocks until the operation is done.
class OperationWaiter {
 public:
  virtual void WaitFor(EngineOperation& operation) = 0;

 protected:
  ~OperationWaiter() = default;
};

class OperationPool;

class EngineOperation final : public Operation {
 public:
  explicit EngineOperation(OperationPool& pool) : pool_(pool) {}

  absl::Status Wait() override;
  bool Done() const override { return done_.load(std::memory_order_seq_cst); }
  void Ref() override { references_.fetch_add(1, std::memory_order_relaxed); }
  void Unref() override;

  // Everything that follows from the request, among `size` ranks.
  void Prepare(const OperationRequest& request, int size, const SelectionOverride& selection);

  // Constant from issue to completion.
  OperationDescriptor descriptor;
  uint64_t fingerprint = 0;
  uint32_t sequence = 0;
  Channel channel = Channel::kCollective;
  int peer = -1;  // point to point only
  const void* input = nullptr;
  void* output = nullptr;
  ReduceKernels kernels;  // reductions only
  bool wide = false;
  absl::Time issued, deadline;
  OperationWaiter* waiter = nullptr;

  // Belongs to whoever drives the engine.
  const Program* program = nullptr;
  Layout layout;
  uint64_t next_segment = 0;    // to begin
  uint64_t oldest_segment = 0;  // not complete
  uint64_t finished = 0;        // bit i: segment oldest_segment + i is complete
  bool advanced = false;        // in the core's list of operations with segments that became complete
  size_t pending_index = 0;     // in the core's list of operations in flight

  // The last thing done to an operation in flight. The status and all outputs are visible to whoever sees Done.
  void Complete(absl::Status status) {
    status_ = std::move(status);
    done_.store(true, std::memory_order_seq_cst);
  }

 private:
  friend class OperationPool;
  OperationPool& pool_;
  std::atomic<int> references_{0};
  std::atomic<bool> done_{false};
  absl::Status status_;  // written before done_, read after it
};

// Operations for reuse: none is allocated after the first few. Thread-safe. Lives until its owner has left and the last
// operation has come back, so that a Work may outlive its group.
class OperationPool {
 public:
  struct Leave {
    void operator()(OperationPool* pool) const { pool->Detach(); }
  };
  using Owner = std::unique_ptr<OperationPool, Leave>;
  static Owner Create() { return Owner(new OperationPool); }

  // With `references` references, not done.
  EngineOperation* Take(int references);

 private:
  friend class EngineOperation;
  OperationPool() = default;
  ~OperationPool() = default;
  void Return(EngineOperation* operation);
  void Detach();

  absl::Mutex mutex_;
  std::vector<std::unique_ptr<EngineOperation>> free_ ABSL_GUARDED_BY(mutex_);
  size_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  bool detached_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tutti

#endif  // TUTTI_SRC_ENGINE_OPERATION_H_
