#include "tests/ddp/fake_group.h"

#include <atomic>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "src/schedule/canonical_tree.h"
#include "tests/ddp/elements.h"

namespace tutti::testing {

// Its fields belong to the world.
class FakeOperation final : public Operation {
 public:
  FakeOperation(FakeWorld* in, int position, absl::Time until) : world(in), index(position), deadline(until) {}

  absl::Status Wait() override { return world->Wait(*this); }
  bool Done() const override { return world->Done(*this); }
  void Ref() override { references_.fetch_add(1); }
  int source() const override { return -1; }
  std::string Describe() const override { return "operation of the fake group"; }
  void Unref() override {
    if (references_.fetch_sub(1) == 1) delete this;
  }

  FakeWorld* const world;
  const int index;  // in the order of calls
  const absl::Time deadline;
  bool done = false;
  absl::Status status;

 private:
  ~FakeOperation() = default;
  std::atomic<int> references_{1};
};

namespace {

class FakeGroup final : public ProcessGroup {
 public:
  FakeGroup(FakeWorld* world, int rank) : world_(world), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return world_->size(); }
  Work AllReduce(Tensor data, const ReduceOptions& options) override { return AllReduce(data, data, options); }
  Work AllReduce(ConstTensor input, Tensor output, const ReduceOptions& options) override {
    if (options.op != ReduceOp::kSum) return Unimplemented();
    return world_->Submit(
        rank_, {.kind = FakeCall::Kind::kAllReduce, .input = input, .output = output, .divisor = options.divisor},
        options.timeout);
  }
  Work AllGather(ConstTensor input, Tensor output, const CollectiveOptions& options) override {
    return world_->Submit(rank_, {.kind = FakeCall::Kind::kAllGather, .input = input, .output = output},
                          options.timeout);
  }
  Work Broadcast(Tensor data, int root, const CollectiveOptions& options) override {
    return world_->Submit(rank_, {.kind = FakeCall::Kind::kBroadcast, .input = data, .output = data, .root = root},
                          options.timeout);
  }
  Work Barrier(const CollectiveOptions& options) override { return world_->Submit(rank_, {}, options.timeout); }
  Work ReduceScatter(ConstTensor, Tensor, const ReduceOptions&) override { return Unimplemented(); }
  Work Reduce(ConstTensor, Tensor, int, const ReduceOptions&) override { return Unimplemented(); }
  Work ReduceScatterV(ConstTensor, Tensor, absl::Span<const size_t>, const ReduceOptions&) override {
    return Unimplemented();
  }
  Work AllGatherV(ConstTensor, Tensor, absl::Span<const size_t>, const CollectiveOptions&) override {
    return Unimplemented();
  }
  Work Gather(ConstTensor, Tensor, int, const CollectiveOptions&) override { return Unimplemented(); }
  Work GatherV(ConstTensor, Tensor, absl::Span<const size_t>, int, const CollectiveOptions&) override {
    return Unimplemented();
  }
  Work Scatter(ConstTensor, Tensor, int, const CollectiveOptions&) override { return Unimplemented(); }
  Work ScatterV(ConstTensor, Tensor, absl::Span<const size_t>, int, const CollectiveOptions&) override {
    return Unimplemented();
  }
  Work AllToAll(ConstTensor, Tensor, const CollectiveOptions&) override { return Unimplemented(); }
  Work AllToAllV(ConstTensor, absl::Span<const size_t>, Tensor, absl::Span<const size_t>,
                 const CollectiveOptions&) override {
    return Unimplemented();
  }
  Work Send(ConstTensor, int, const PointToPointOptions&) override { return Unimplemented(); }
  Work Recv(Tensor, int, const PointToPointOptions&) override { return Unimplemented(); }
  Work RecvAny(Tensor, const PointToPointOptions&) override { return Unimplemented(); }
  Work Batch(absl::FunctionRef<void(ProcessGroup&)>) override { return Unimplemented(); }

  absl::StatusOr<std::unique_ptr<ProcessGroup>> Split(int, int) override {
    return absl::UnimplementedError("not in this fake");
  }

  absl::StatusOr<Buffer> Allocate(size_t bytes) override {
    return Buffer(std::shared_ptr<void>(new std::byte[bytes](), std::default_delete<std::byte[]>()), bytes);
  }
  void Abort(absl::Status why) override {
    world_->Fail(absl::AbortedError(absl::StrCat("rank ", rank_, " aborted the group: ", why.message())));
  }
  absl::Status status() const override { return world_->error(); }
  std::string Describe() const override { return "transport = fake (test)\n"; }

 private:
  static Work Unimplemented() { return Work(absl::UnimplementedError("not in the fake group")); }

  FakeWorld* const world_;
  const int rank_;
};

std::string Fingerprint(const FakeCall& call) {
  const std::string tensor = absl::StrCat(Name(call.input.type()), "[", call.input.count(), "]");
  switch (call.kind) {
    case FakeCall::Kind::kAllReduce:
      return absl::StrCat("all-reduce of ", tensor, " divided by ", call.divisor);
    case FakeCall::Kind::kAllGather:
      return absl::StrCat("all-gather of ", tensor);
    case FakeCall::Kind::kBroadcast:
      return absl::StrCat("broadcast of ", tensor, " from rank ", call.root);
    case FakeCall::Kind::kBarrier:
      return "barrier";
  }
  return "";
}

// In fp64 for float64, in fp32 otherwise, and rounded once by Store.
template <typename T>
double SumOf(const std::vector<FakeCall>& calls, size_t i) {
  const T sum = CanonicalTree(
      static_cast<uint32_t>(calls.size()),
      [&](uint32_t rank) { return static_cast<T>(Load(calls[rank].input.type(), calls[rank].input.data(), i)); },
      [](T left, T right) { return left + right; });
  return sum / static_cast<T>(calls[0].divisor);
}

void AllReduceFloats(const std::vector<FakeCall>& calls) {
  const DataType type = calls[0].input.type();
  for (size_t i = 0; i < calls[0].input.count(); ++i) {
    const double sum = type == DataType::kFloat64 ? SumOf<double>(calls, i) : SumOf<float>(calls, i);
    for (const FakeCall& call : calls) Store(type, call.output.data(), i, sum);
  }
}

void AllReduceBools(const std::vector<FakeCall>& calls) {
  for (size_t i = 0; i < calls[0].input.count(); ++i) {
    bool any = false;
    for (const FakeCall& call : calls) any = any || static_cast<const uint8_t*>(call.input.data())[i] != 0;
    for (const FakeCall& call : calls) static_cast<uint8_t*>(call.output.data())[i] = any ? 1 : 0;
  }
}

void AllGather(const std::vector<FakeCall>& calls) {
  for (const FakeCall& to : calls) {
    auto* place = static_cast<std::byte*>(to.output.data());
    for (const FakeCall& from : calls) {
      if (from.input.bytes() > 0) std::memcpy(place, from.input.data(), from.input.bytes());
      place += from.input.bytes();
    }
  }
}

void Broadcast(const std::vector<FakeCall>& calls) {
  const FakeCall& from = calls[calls[0].root];
  for (const FakeCall& to : calls) {
    if (&to != &from && from.input.bytes() > 0) std::memcpy(to.output.data(), from.input.data(), from.input.bytes());
  }
}

absl::Status Execute(const std::vector<FakeCall>& calls) {
  for (size_t rank = 1; rank < calls.size(); ++rank) {
    if (Fingerprint(calls[rank]) == Fingerprint(calls[0])) continue;
    return absl::FailedPreconditionError(absl::StrCat("ranks disagree: rank 0 calls ", Fingerprint(calls[0]), ", rank ",
                                                      rank, " calls ", Fingerprint(calls[rank])));
  }
  if (calls[0].kind == FakeCall::Kind::kAllGather) AllGather(calls);
  if (calls[0].kind == FakeCall::Kind::kBroadcast) Broadcast(calls);
  if (calls[0].kind == FakeCall::Kind::kAllReduce) {
    calls[0].input.type() == DataType::kBool ? AllReduceBools(calls) : AllReduceFloats(calls);
  }
  return absl::OkStatus();
}

}  // namespace

FakeWorld::FakeWorld(int size, absl::Duration timeout)
    : size_(size), timeout_(timeout), calls_(size), thread_([this] { Run(); }) {}

FakeWorld::~FakeWorld() {
  {
    absl::MutexLock lock(&mutex_);
    FailLocked(absl::CancelledError("the group is destroyed"));
    stop_ = true;
  }
  thread_.join();
}

std::unique_ptr<ProcessGroup> FakeWorld::MakeGroup(int rank) { return std::make_unique<FakeGroup>(this, rank); }

void FakeWorld::Hold() {
  absl::MutexLock lock(&mutex_);
  held_ = true;
}

void FakeWorld::Release() {
  absl::MutexLock lock(&mutex_);
  held_ = false;
}

int FakeWorld::calls(int rank) const {
  absl::MutexLock lock(&mutex_);
  return calls_[rank];
}

Work FakeWorld::Submit(int rank, FakeCall call, absl::Duration timeout) {
  if (on_all_reduce_ && call.kind == FakeCall::Kind::kAllReduce) on_all_reduce_(rank);
  absl::MutexLock lock(&mutex_);
  if (!error_.ok()) return Work(error_);
  const int index = calls_[rank]++;
  if (static_cast<size_t>(index - executed_) >= slots_.size()) slots_.emplace_back(size_);
  const absl::Time deadline = absl::Now() + (timeout > absl::ZeroDuration() ? timeout : timeout_);
  call.operation = new FakeOperation(this, index, deadline);
  call.operation->Ref();
  slots_[index - executed_][rank] = call;
  return Work(call.operation);
}

void FakeWorld::Fail(absl::Status why) {
  absl::MutexLock lock(&mutex_);
  FailLocked(std::move(why));
}

absl::Status FakeWorld::error() const {
  absl::MutexLock lock(&mutex_);
  return error_;
}

absl::Status FakeWorld::Wait(const FakeOperation& operation) {
  absl::MutexLock lock(&mutex_);
  bool* const done = &const_cast<FakeOperation&>(operation).done;
  if (!mutex_.AwaitWithDeadline(absl::Condition(done), operation.deadline)) {
    FailLocked(absl::DeadlineExceededError(MissingRanks(operation)));
  }
  return operation.status;
}

bool FakeWorld::Done(const FakeOperation& operation) const {
  absl::MutexLock lock(&mutex_);
  return operation.done;
}

bool FakeWorld::FrontIsComplete() const {
  if (slots_.empty()) return false;
  for (const FakeCall& call : slots_.front()) {
    if (call.operation == nullptr) return false;
  }
  return true;
}

bool FakeWorld::HasWork() const { return stop_ || (!held_ && FrontIsComplete()); }

void FakeWorld::FailLocked(absl::Status why) {
  if (error_.ok()) error_ = std::move(why);
  for (Slot& slot : slots_) Complete(slot, error_);
  slots_.clear();
}

std::string FakeWorld::MissingRanks(const FakeOperation& operation) const {
  std::string text = absl::StrCat("collective ", operation.index, " was not called in time by rank");
  for (int rank = 0; rank < size_; ++rank) {
    if (calls_[rank] <= operation.index) absl::StrAppend(&text, " ", rank);
  }
  return text;
}

void FakeWorld::Complete(Slot& slot, const absl::Status& status) {
  for (FakeCall& call : slot) {
    if (call.operation == nullptr) continue;
    call.operation->status = status;
    call.operation->done = true;
    call.operation->Unref();
  }
}

void FakeWorld::Run() {
  absl::MutexLock lock(&mutex_);
  while (true) {
    mutex_.Await(absl::Condition(this, &FakeWorld::HasWork));
    if (stop_) return;
    const absl::Status status = Execute(slots_.front());
    if (!status.ok()) {
      FailLocked(status);
      continue;
    }
    Complete(slots_.front(), status);
    slots_.pop_front();
    ++executed_;
  }
}

}  // namespace tutti::testing
