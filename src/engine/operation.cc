#include "src/engine/operation.h"

#include <utility>

namespace tutti {

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
