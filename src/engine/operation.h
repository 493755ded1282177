// EngineOperation: one operation from its call to its end; and the pool that recycles them.

#ifndef TUTTI_SRC_ENGINE_OPERATION_H_
#define TUTTI_SRC_ENGINE_OPERATION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "src/engine/layout.h"
#include "src/engine/program.h"
#include "src/engine/selection.h"
#include "src/observe/journal.h"
#include "src/reduce/reduce.h"
#include "src/transport/transport.h"
#include "tutti/work.h"

namespace tutti {

// Of a receive that takes a message from whoever sends one.
inline constexpr int kAnyPeer = -1;
// Of an operation in flight at which nobody has looked with a clock in hand: most end before.
inline constexpr absl::Time kNoDeadlineYet = absl::InfinitePast();

// What an operation is to do. Operands as ProcessGroup documents them, already checked.
struct OperationRequest {
  Collective collective = Collective::kBarrier;
  ReduceOp op = ReduceOp::kSum;
  DataType type = DataType::kUInt8;
  uint64_t count = 0;  // of the operand, or of one block
  // Uneven blocks (Layout::Operands). Copied.
  absl::Span<const size_t> input_counts = {}, output_counts = {};
  int root = 0;        // of a rooted collective; send, recv: the peer, or kAnyPeer
  uint32_t label = 0;  // point to point: what the user calls the tag
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
  int source() const override;
  std::string Describe() const override;
  void Ref() override { references_.fetch_add(1, std::memory_order_relaxed); }
  void Unref() override;

  // Everything that follows from the request; always among `size` ranks on hosts as EngineOptions::ranks_per_host says.
  void Prepare(const OperationRequest& request, int size, const SelectionTable& table, int group_ranks_per_host);
  // An operation that does nothing itself, and is done when `members` have told MemberDone.
  void PrepareBatch(uint32_t members);
  void MemberDone(const absl::Status& status);

  // Constant from issue to completion.
  OperationDescriptor descriptor;
  uint64_t fingerprint = 0;
  uint64_t history = 0;  // of a collective: over all up to this one
  uint32_t sequence = 0;
  Channel channel = Channel::kCollective;
  uint32_t label = 0;  // point to point only
  const void* input = nullptr;
  void* output = nullptr;
  ReduceKernels kernels;  // reductions only
  bool wide = false;
  int ranks_per_host = 1;  // see ScheduleKey
  bool background = false;
  std::vector<size_t> input_counts, output_counts;
  absl::Duration timeout;
  EngineOperation* batch = nullptr;  // that it is a member of; holds a reference to it
  // Null until it is issued.
  std::atomic<OperationWaiter*> waiter{nullptr};
  absl::string_view reason;    // for its algorithm
  uint64_t message_bytes = 0;  // of its largest messages
  int sockets = 1;             // per peer

  // Belongs to whoever drives the engine.
  absl::Time deadline = kNoDeadlineYet;
  int peer = kAnyPeer;  // point to point only
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
  bool IsPreparedFor(const OperationRequest& request) const;
  void PrepareKind(const OperationRequest& request, int size, const SelectionTable& table, int group_ranks_per_host);
  void NoteCounts();

  OperationPool& pool_;
  std::atomic<int> references_{0};
  std::atomic<bool> done_{false};
  absl::Status status_;    // written before done_, read after it
  bool prepared_ = false;  // descriptor, and what follows from it, are those of a request, this one or one before
  uint32_t members_ = 0;   // of a batch, not done
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
  ~OperationPool() { delete spare_.load(); }
  void Return(EngineOperation* operation);
  void Keep(std::unique_ptr<EngineOperation> operation);
  void Detach();

  std::atomic<EngineOperation*> spare_{nullptr};  // the one that came back last, if it found the place free; owned
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<EngineOperation>> free_ ABSL_GUARDED_BY(mutex_);
  size_t made_ ABSL_GUARDED_BY(mutex_) = 0;
  bool detached_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tutti

#endif  // TUTTI_SRC_ENGINE_OPERATION_H_
