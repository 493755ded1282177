#include "src/engine/operation.h"

#include <utility>

#include "absl/time/clock.h"

namespace tutti {

void EngineOperation::Prepare(const OperationRequest& request, int size, const SelectionOverride& selection) {
  const Selection selected = Select(request.collective, size, request.count, request.type, request.op, selection);
  descriptor = {.collective = request.collective,
                .op = request.op,
                .type = request.type,
                .algorithm = selected.algorithm,
                .count = request.count,
                .root = request.root,
                .divisor = request.divisor,
                .segment_bytes = selected.segment_count * ByteSize(request.type)};
  fingerprint = Fingerprint(descriptor);
  const bool pair = request.collective == Collective::kSend || request.collective == Collective::kRecv;
  channel = pair ? Channel::kPointToPoint : Channel::kCollective;
  peer = pair ? request.root : -1;
  const bool reduces = request.collective == Collective::kAllReduce || request.collective == Collective::kReduceScatter;
  kernels = reduces ? KernelsFor(request.type, request.op) : ReduceKernels{};
  wide = selected.wide;
  input = request.input;
  output = request.output;
  issued = absl::Now();
  deadline = issued + request.timeout;
}

absl::Status EngineOperation::Wait() {
  if (!Done()) waiter->WaitFor(*this);
  return status_;
}

void EngineOperation::Unref() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) pool_.Return(this);
}

EngineOperation* OperationPool::Take(int references) {
  std::unique_ptr<EngineOperation> operation;
  {
    absl::MutexLock lock(&mutex_);
    ++taken_;
    if (!free_.empty()) {
      operation = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (operation == nullptr) operation = std::make_unique<EngineOperation>(*this);
  operation->references_.store(references, std::memory_order_relaxed);
  operation->done_.store(false, std::memory_order_relaxed);
  operation->status_ = absl::OkStatus();
  return operation.release();
}

void OperationPool::Return(EngineOperation* operation) {
  bool last = false;
  {
    absl::MutexLock lock(&mutex_);
    free_.emplace_back(operation);
    last = --taken_ == 0 && detached_;
  }
  if (last) delete this;
}

void OperationPool::Detach() {
  bool last = false;
  {
    absl::MutexLock lock(&mutex_);
    detached_ = true;
    last = taken_ == 0;
  }
  if (last) delete this;
}

}  // namespace tutti
