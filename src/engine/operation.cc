#include "src/engine/operation.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tutti {

void EngineOperation::Prepare(const OperationRequest& request, int size, const SelectionTable& table,
                              int group_ranks_per_host) {
  if (!IsPreparedFor(request)) PrepareKind(request, size, table, group_ranks_per_host);
  input = request.input;
  output = request.output;
  label = request.label;
  peer = channel == Channel::kPointToPoint ? request.root : kAnyPeer;
  background = request.background;
  timeout = request.timeout;
  deadline = kNoDeadlineYet;
  sockets = 1;
  program = nullptr;
}

// Training repeats itself, and the pool hands out what was used last.
bool EngineOperation::IsPreparedFor(const OperationRequest& request) const {
  return prepared_ && !descriptor.uneven && request.input_counts.empty() && request.output_counts.empty() &&
         descriptor.collective == request.collective && descriptor.op == request.op &&
         descriptor.type == request.type && descriptor.count == request.count && descriptor.root == request.root &&
         descriptor.divisor == request.divisor;
}

// What follows from the request but for where its operands are.
void EngineOperation::PrepareKind(const OperationRequest& request, int size, const SelectionTable& table,
                                  int group_ranks_per_host) {
  const bool uneven = !request.input_counts.empty() || !request.output_counts.empty();
  const Selection selected = Select({.collective = request.collective,
                                     .size = size,
                                     .count = request.count,
                                     .type = request.type,
                                     .op = request.op,
                                     .uneven = uneven,
                                     .ranks_per_host = group_ranks_per_host},
                                    table);
  descriptor = {.collective = request.collective,
                .op = request.op,
                .type = request.type,
                .algorithm = selected.algorithm,
                .count = request.count,
                .uneven = uneven,
                .root = request.root,
                .divisor = request.divisor,
                .segment_bytes = selected.segment_count * ByteSize(request.type)};
  input_counts.assign(request.input_counts.begin(), request.input_counts.end());
  output_counts.assign(request.output_counts.begin(), request.output_counts.end());
  if (uneven) NoteCounts();
  fingerprint = Fingerprint(descriptor);
  const bool pair = request.collective == Collective::kSend || request.collective == Collective::kRecv;
  channel = pair ? Channel::kPointToPoint : Channel::kCollective;
  kernels = Reduces(request.collective) ? KernelsFor(request.type, request.op) : ReduceKernels{};
  wide = selected.wide;
  ranks_per_host = selected.ranks_per_host;
  reason = selected.reason;
  message_bytes = selected.message_bytes;
  prepared_ = true;
}

// Where all ranks know all counts, they must agree on them.
void EngineOperation::NoteCounts() {
  descriptor.count = 0;
  if (descriptor.collective != Collective::kAllGather && descriptor.collective != Collective::kReduceScatter) return;
  const std::vector<size_t>& all = descriptor.collective == Collective::kAllGather ? output_counts : input_counts;
  descriptor.count = std::accumulate(all.begin(), all.end(), uint64_t{0});
  descriptor.counts_hash = HashCounts(all);
}

void EngineOperation::PrepareBatch(uint32_t members) {
  descriptor = {};
  prepared_ = false;
  members_ = members;
}

void EngineOperation::MemberDone(const absl::Status& status) {
  if (status_.ok()) status_ = status;
  if (--members_ > 0) return Unref();
  Complete(std::move(status_));
  Unref();
}

absl::Status EngineOperation::Wait() {
  if (!Done()) {
    OperationWaiter* const by = waiter.load();
    if (by == nullptr) {
      return absl::FailedPreconditionError(
          "Wait within a batch: the operation is issued when the batch is complete; wait afterwards");
    }
    by->WaitFor(*this);
  }
  return status_;
}

int EngineOperation::source() const {
  return Done() && status_.ok() && descriptor.collective == Collective::kRecv ? peer : -1;
}

std::string EngineOperation::Describe() const {
  if (!prepared_) return "batch of operations";
  if (descriptor.algorithm == Algorithm::kShared) {
    return absl::StrCat(ToString(descriptor), ": ", Name(descriptor.algorithm), " (", reason, ")");
  }
  return absl::StrCat(ToString(descriptor), ": ", Name(descriptor.algorithm), " in messages of up to ", message_bytes,
                      " bytes, ", sockets, sockets == 1 ? " socket" : " sockets", " per peer (", reason, ")");
}

void EngineOperation::Unref() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) pool_.Return(this);
}

EngineOperation* OperationPool::Take(int references) {
  std::unique_ptr<EngineOperation> operation(spare_.exchange(nullptr));
  if (operation == nullptr) {
    absl::MutexLock lock(&mutex_);
    if (free_.empty()) {
      free_.push_back(std::make_unique<EngineOperation>(*this));
      ++made_;
    }
    operation = std::move(free_.back());
    free_.pop_back();
  }
  operation->references_.store(references, std::memory_order_relaxed);
  operation->done_.store(false, std::memory_order_relaxed);
  operation->status_ = absl::OkStatus();
  operation->waiter.store(nullptr, std::memory_order_relaxed);
  operation->batch = nullptr;
  operation->sequence = 0;
  return operation.release();
}

void OperationPool::Return(EngineOperation* operation) {
  EngineOperation* none = nullptr;
  if (!spare_.compare_exchange_strong(none, operation)) Keep(std::unique_ptr<EngineOperation>(operation));
}

void OperationPool::Keep(std::unique_ptr<EngineOperation> operation) {
  bool last = false;
  {
    absl::MutexLock lock(&mutex_);
    free_.push_back(std::move(operation));
    last = detached_ && free_.size() == made_;
  }
  if (last) delete this;
}

void OperationPool::Detach() {
  // The place is taken from now on, so that all others come back under the mutex.
  EngineOperation* const spare = spare_.exchange(new EngineOperation(*this));
  bool last = false;
  {
    absl::MutexLock lock(&mutex_);
    detached_ = true;
    if (spare != nullptr) free_.emplace_back(spare);
    last = free_.size() == made_;
  }
  if (last) delete this;
}

}  // namespace tutti
