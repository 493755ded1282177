#include "src/group/batch.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"

namespace tutti {
namespace {

class BatchCalls final : public CollectiveCalls {
 public:
  BatchCalls(ProcessGroup& group, const Scope& scope, Engine& engine)
      : CollectiveCalls(scope), group_(group), engine_(engine) {}

  // After the calls.
  Work Finish() {
    if (!refused_.ok()) {
      for (EngineOperation* operation : operations_) {
        operation->Complete(refused_);
        operation->Unref();
      }
      return Work(refused_);
    }
    Work all = engine_.JoinBatch(operations_);
    engine_.Submit(operations_);
    return all;
  }

  Work Batch(absl::FunctionRef<void(ProcessGroup& batch)>) override {
    return Refuse(absl::FailedPreconditionError("a batch within a batch: batches do not nest"));
  }
  absl::StatusOr<std::unique_ptr<ProcessGroup>> Split(int, int) override {
    return Refuse(absl::FailedPreconditionError("a split within a batch: split the group itself")).Wait();
  }
  absl::StatusOr<Buffer> Allocate(size_t bytes) override { return group_.Allocate(bytes); }
  void Abort(absl::Status why) override { group_.Abort(std::move(why)); }
  absl::Status status() const override { return group_.status(); }
  std::string Describe() const override { return group_.Describe(); }

 protected:
  Work Issue(const OperationRequest& request) override {
    operations_.push_back(engine_.Prepare(request));
    return Work(operations_.back());
  }

  Work Refuse(absl::Status why) override {
    if (refused_.ok()) refused_ = why;
    return Work(std::move(why));
  }

 private:
  ProcessGroup& group_;
  Engine& engine_;
  absl::InlinedVector<EngineOperation*, 16> operations_;
  absl::Status refused_;
};

}  // namespace

Work RunBatch(ProcessGroup& group, const CollectiveCalls::Scope& scope, Engine& engine,
              absl::FunctionRef<void(ProcessGroup& batch)> calls) {
  BatchCalls batch(group, scope, engine);
  calls(batch);
  return batch.Finish();
}

}  // namespace tutti
