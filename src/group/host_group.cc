#include "src/group/host_group.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/fork_guard.h"
#include "src/base/pages.h"
#include "src/base/status_macros.h"
#include "src/group/batch.h"
#include "src/group/calls.h"
#include "src/reduce/reduce.h"

namespace tutti {

void VerdictRelay::Pronounce(absl::Status verdict) {
  absl::MutexLock lock(&mutex_);
  if (engine_ != nullptr) {
    engine_->SetVerdict(std::move(verdict));
  } else if (early_.ok()) {
    early_ = std::move(verdict);
  }
}

void VerdictRelay::SetEngine(Engine* engine) {
  absl::MutexLock lock(&mutex_);
  engine_ = engine;
  if (engine_ != nullptr && !early_.ok()) engine_->SetVerdict(early_);
}

namespace {

class HostGroup final : public CollectiveCalls {
 public:
  explicit HostGroup(HostGroupParts parts)
      : CollectiveCalls({parts.endpoint->rank(), parts.endpoint->size(), parts.timeout}),
        journal_(std::move(parts.journal)),
        relay_(std::move(parts.relay)),
        control_(std::move(parts.control)),
        buffers_(std::move(parts.buffers)),
        engine_(std::make_unique<Engine>(std::move(parts.endpoint), *journal_, parts.engine, Reporter())) {
    relay_->SetEngine(engine_.get());
  }

  ~HostGroup() override {
    if (fork_guard_.InChild()) {
      // Threads, sockets and peers belong to the parent: nothing may be joined, closed in order, or told to anybody.
      (void)engine_.release();
      (void)control_.release();
      (void)journal_.release();
      return;
    }
    relay_->SetEngine(nullptr);
  }

  Work Batch(absl::FunctionRef<void(ProcessGroup& batch)> calls) override {
    if (absl::Status status = CheckProcess(); !status.ok()) return Work(std::move(status));
    return RunBatch(*this, scope(), *engine_, calls);
  }

  absl::StatusOr<std::unique_ptr<ProcessGroup>> Split(int color, int key) override {
    TUTTI_RETURN_IF_ERROR(CheckProcess());
    if (control_ == nullptr) return absl::UnimplementedError("this group has no way to make another one");
    return control_->Split(*this, color, key);
  }

  absl::StatusOr<Buffer> Allocate(size_t bytes) override {
    if (buffers_ != nullptr) {
      TUTTI_ASSIGN_OR_RETURN(std::shared_ptr<void> memory, buffers_->Allocate(bytes));
      return Buffer(std::move(memory), bytes);
    }
    TUTTI_ASSIGN_OR_RETURN(Pages mapped, Pages::Map(bytes));
    auto pages = std::make_shared<Pages>(std::move(mapped));
    std::byte* data = pages->data();
    return Buffer(std::shared_ptr<void>(std::move(pages), data), bytes);
  }

  void Abort(absl::Status why) override {
    if (fork_guard_.InChild()) return;
    if (control_ != nullptr) {
      control_->Abort(std::move(why));
    } else {
      engine_->SetVerdict(absl::AbortedError(absl::StrCat("aborted by rank ", rank(), ": ", why.ToString())));
    }
  }

  absl::Status status() const override {
    TUTTI_RETURN_IF_ERROR(CheckProcess());
    return engine_->verdict();
  }

  std::string Describe() const override {
    std::vector<std::string> lines = {
        absl::StrCat("rank = ", rank(), " of ", size()),
        absl::StrCat("timeout = ", absl::FormatDuration(scope().timeout)),
        absl::StrCat("reduction kernels = ", Name(ChosenInstructionSet()), " (the best this processor has)"),
        engine_->DescribeSelection(),
        engine_->DescribeTransport(),
    };
    if (control_ != nullptr) {
      for (std::string& line : control_->Describe()) lines.push_back(std::move(line));
    }
    return absl::StrCat(absl::StrJoin(lines, "\n"), "\n");
  }

 protected:
  Work Issue(const OperationRequest& request) override {
    if (absl::Status status = CheckProcess(); !status.ok()) return Work(std::move(status));
    return engine_->Issue(request);
  }

  Work Refuse(absl::Status why) override { return Work(std::move(why)); }

 private:
  absl::AnyInvocable<void(const Trouble&)> Reporter() {
    if (control_ == nullptr) return nullptr;
    return [control = control_.get()](const Trouble& trouble) { control->Report(trouble); };
  }

  absl::Status CheckProcess() const {
    if (!fork_guard_.InChild()) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat("the group was made by process ", fork_guard_.creator(),
                                                      "; this is process ", getpid(),
                                                      ", forked from it: make a group of its own after the fork"));
  }

  ForkGuard fork_guard_;
  // In the order in which they need each other: destroyed from the last to the first.
  std::unique_ptr<Journal> journal_;
  std::shared_ptr<VerdictRelay> relay_;
  std::unique_ptr<ControlPlane> control_;
  const std::shared_ptr<BufferRegistry> buffers_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace

std::unique_ptr<ProcessGroup> MakeHostGroup(HostGroupParts parts) {
  return std::make_unique<HostGroup>(std::move(parts));
}

}  // namespace tutti
