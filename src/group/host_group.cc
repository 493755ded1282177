#include "src/group/host_group.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/fork_guard.h"
#include "src/base/pages.h"
#include "src/base/status_macros.h"
#include "src/group/arguments.h"
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

class HostGroup final : public ProcessGroup {
 public:
  explicit HostGroup(HostGroupParts parts)
      : rank_(parts.endpoint->rank()),
        size_(parts.endpoint->size()),
        timeout_(parts.timeout),
        journal_(std::move(parts.journal)),
        relay_(std::move(parts.relay)),
        control_(std::move(parts.control)),
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

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Work AllReduce(Tensor data, const ReduceOptions& options) override { return AllReduce(data, data, options); }

  Work AllReduce(ConstTensor input, Tensor output, const ReduceOptions& options) override {
    OperationRequest request = ReductionRequest(Collective::kAllReduce, input, output, options);
    request.count = output.count();
    return Issue(request, CheckReductionArguments(input, "input", output, "output", 1, 0, options));
  }

  Work ReduceScatter(ConstTensor input, Tensor output, const ReduceOptions& options) override {
    OperationRequest request = ReductionRequest(Collective::kReduceScatter, input, output, options);
    request.count = output.count();
    return Issue(request, CheckReductionArguments(output, "output", input, "input", size_, rank_, options));
  }

  Work AllGather(ConstTensor input, Tensor output, const CollectiveOptions& options) override {
    OperationRequest request = MoveRequest(Collective::kAllGather, input, options);
    request.output = output.data();
    return Issue(request, CheckBlocks("input", input, "output", output, size_, rank_));
  }

  Work Broadcast(Tensor data, int root, const CollectiveOptions& options) override {
    OperationRequest request = MoveRequest(Collective::kBroadcast, data, options);
    request.output = data.data();
    request.root = root;
    absl::Status arguments = CheckTensor("data", data);
    if (arguments.ok()) arguments = CheckRank("root", root, size_);
    return Issue(request, std::move(arguments));
  }

  Work Barrier(const CollectiveOptions& options) override {
    return Issue(MoveRequest(Collective::kBarrier, ConstTensor(nullptr, 0, DataType::kUInt8), options),
                 absl::OkStatus());
  }

  Work Send(ConstTensor data, int to, const CollectiveOptions& options) override {
    return PointToPoint(MoveRequest(Collective::kSend, data, options), data, to);
  }

  Work Recv(Tensor data, int from, const CollectiveOptions& options) override {
    OperationRequest request = MoveRequest(Collective::kRecv, data, options);
    request.output = data.data();
    return PointToPoint(request, data, from);
  }

  absl::StatusOr<Buffer> Allocate(size_t bytes) override {
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
      engine_->SetVerdict(absl::AbortedError(absl::StrCat("aborted by rank ", rank_, ": ", why.ToString())));
    }
  }

  absl::Status status() const override {
    TUTTI_RETURN_IF_ERROR(CheckProcess());
    return engine_->verdict();
  }

  std::string Describe() const override {
    std::vector<std::string> lines = {
        absl::StrCat("rank = ", rank_, " of ", size_),
        absl::StrCat("timeout = ", absl::FormatDuration(timeout_)),
        absl::StrCat("reduction kernels = ", Name(ChosenInstructionSet()), " (the best this processor has)"),
        DescribeSelection(size_),
        engine_->DescribeTransport(),
    };
    if (control_ != nullptr) {
      for (std::string& line : control_->Describe()) lines.push_back(std::move(line));
    }
    return absl::StrCat(absl::StrJoin(lines, "\n"), "\n");
  }

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

  absl::Duration Timeout(absl::Duration asked) const { return asked > absl::ZeroDuration() ? asked : timeout_; }

  OperationRequest ReductionRequest(Collective collective, const ConstTensor& input, const Tensor& output,
                                    const ReduceOptions& options) const {
    return {.collective = collective,
            .op = options.op,
            .type = input.type(),
            .divisor = options.op == ReduceOp::kAverage ? options.divisor * size_ : options.divisor,
            .input = input.data(),
            .output = output.data(),
            .timeout = Timeout(options.timeout),
            .background = options.background};
  }

  OperationRequest MoveRequest(Collective collective, const ConstTensor& data, const CollectiveOptions& options) const {
    return {.collective = collective,
            .type = data.type(),
            .count = data.count(),
            .input = data.data(),
            .timeout = Timeout(options.timeout),
            .background = options.background};
  }

  static absl::Status CheckReductionArguments(const ConstTensor& block, absl::string_view block_role,
                                              const ConstTensor& whole, absl::string_view whole_role, int blocks,
                                              int place, const ReduceOptions& options) {
    TUTTI_RETURN_IF_ERROR(CheckBlocks(block_role, block, whole_role, whole, blocks, place));
    return CheckReduction(block.type(), options.op, options.divisor);
  }

  Work PointToPoint(OperationRequest request, const ConstTensor& data, int peer) {
    request.root = peer;
    absl::Status arguments = CheckTensor("data", data);
    if (arguments.ok()) arguments = CheckRank("peer", peer, size_);
    if (arguments.ok() && peer == rank_) {
      arguments = absl::InvalidArgumentError(absl::StrCat("rank ", rank_, " cannot send to, or receive from, itself"));
    }
    return Issue(request, std::move(arguments));
  }

  Work Issue(const OperationRequest& request, absl::Status arguments) {
    if (arguments.ok()) arguments = CheckProcess();
    if (arguments.ok()) return engine_->Issue(request);
    return Work(absl::Status(arguments.code(),
                             absl::StrCat(Name(request.collective), " on rank ", rank_, ": ", arguments.message())));
  }

  const int rank_;
  const int size_;
  const absl::Duration timeout_;
  ForkGuard fork_guard_;
  // In the order in which they need each other: destroyed from the last to the first.
  std::unique_ptr<Journal> journal_;
  std::shared_ptr<VerdictRelay> relay_;
  std::unique_ptr<ControlPlane> control_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace

std::unique_ptr<ProcessGroup> MakeHostGroup(HostGroupParts parts) {
  return std::make_unique<HostGroup>(std::move(parts));
}

}  // namespace tutti
