#include "src/group/calls.h"

#include "absl/strings/str_cat.h"
#include "src/base/status_macros.h"
#include "src/group/arguments.h"
#include "src/reduce/reduce.h"
#include "src/schedule/builders.h"

namespace tutti {
namespace {

// Nobody in between could know the size of a block, so each goes straight to its rank.
absl::Status CheckDirectSize(int size) {
  if (size <= kDirectSizeMax) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("blocks of different sizes take a connection to every rank, and that ",
                                                 "is for at most ", kDirectSizeMax, " ranks, not ", size));
}

}  // namespace

Work CollectiveCalls::IssueChecked(const OperationRequest& request, absl::Status arguments) {
  if (arguments.ok()) return Issue(request);
  return Refuse(absl::Status(arguments.code(),
                             absl::StrCat(Name(request.collective), " on rank ", rank(), ": ", arguments.message())));
}

Work CollectiveCalls::IssueReduction(const OperationRequest& request, const ReduceOptions& options,
                                     absl::Status arguments) {
  if (arguments.ok()) arguments = CheckReduction(request.type, options.op, options.divisor);
  return IssueChecked(request, std::move(arguments));
}

OperationRequest CollectiveCalls::ReductionRequest(Collective collective, const ConstTensor& input,
                                                   const Tensor& output, const ReduceOptions& options) const {
  return {.collective = collective,
          .op = options.op,
          .type = input.type(),
          .count = input.count(),
          .divisor = options.op == ReduceOp::kAverage ? options.divisor * size() : options.divisor,
          .input = input.data(),
          .output = output.data(),
          .timeout = Timeout(options.timeout),
          .background = options.background};
}

OperationRequest CollectiveCalls::MoveRequest(Collective collective, const ConstTensor& input,
                                              const CollectiveOptions& options) const {
  return {.collective = collective,
          .type = input.type(),
          .count = input.count(),
          .input = input.data(),
          .timeout = Timeout(options.timeout),
          .background = options.background};
}

Work CollectiveCalls::AllReduce(Tensor data, const ReduceOptions& options) {
  return IssueReduction(ReductionRequest(Collective::kAllReduce, data, data, options), options,
                        CheckTensor("data", data));
}

Work CollectiveCalls::AllReduce(ConstTensor input, Tensor output, const ReduceOptions& options) {
  absl::Status arguments = CheckBlocks("input", input, "output", output, 1, 0);
  return IssueReduction(ReductionRequest(Collective::kAllReduce, input, output, options), options,
                        std::move(arguments));
}

Work CollectiveCalls::Reduce(ConstTensor input, Tensor output, int root, const ReduceOptions& options) {
  OperationRequest request = ReductionRequest(Collective::kReduce, input, output, options);
  request.root = root;
  absl::Status arguments = CheckRank("root", root, size());
  if (arguments.ok()) {
    arguments = root == rank() ? CheckBlocks("input", input, "output", output, 1, 0) : CheckTensor("input", input);
  }
  return IssueReduction(request, options, std::move(arguments));
}

Work CollectiveCalls::ReduceScatter(ConstTensor input, Tensor output, const ReduceOptions& options) {
  OperationRequest request = ReductionRequest(Collective::kReduceScatter, input, output, options);
  request.count = output.count();
  absl::Status arguments = CheckBlocks("output", output, "input", input, size(), rank());
  return IssueReduction(request, options, std::move(arguments));
}

Work CollectiveCalls::ReduceScatterV(ConstTensor input, Tensor output, absl::Span<const size_t> counts,
                                     const ReduceOptions& options) {
  OperationRequest request = ReductionRequest(Collective::kReduceScatter, input, output, options);
  const size_t own = output.count();
  request.input_counts = counts;
  request.output_counts = {&own, 1};
  absl::Status arguments = CheckUnevenBlocks("output", output, "input", input, counts, size(), rank());
  if (arguments.ok()) arguments = CheckDirectSize(size());
  return IssueReduction(request, options, std::move(arguments));
}

Work CollectiveCalls::AllGather(ConstTensor input, Tensor output, const CollectiveOptions& options) {
  OperationRequest request = MoveRequest(Collective::kAllGather, input, options);
  request.output = output.data();
  return IssueChecked(request, CheckBlocks("input", input, "output", output, size(), rank()));
}

Work CollectiveCalls::AllGatherV(ConstTensor input, Tensor output, absl::Span<const size_t> counts,
                                 const CollectiveOptions& options) {
  OperationRequest request = MoveRequest(Collective::kAllGather, input, options);
  const size_t own = input.count();
  request.output = output.data();
  request.input_counts = {&own, 1};
  request.output_counts = counts;
  return IssueChecked(request, CheckUnevenBlocks("input", input, "output", output, counts, size(), rank()));
}

Work CollectiveCalls::Broadcast(Tensor data, int root, const CollectiveOptions& options) {
  OperationRequest request = MoveRequest(Collective::kBroadcast, data, options);
  request.output = data.data();
  request.root = root;
  absl::Status arguments = CheckTensor("data", data);
  if (arguments.ok()) arguments = CheckRank("root", root, size());
  return IssueChecked(request, std::move(arguments));
}

Work CollectiveCalls::RootedMove(Collective collective, const ConstTensor& input, const Tensor& output,
                                 const absl::Span<const size_t>* counts, int root, const CollectiveOptions& options) {
  const bool gather = collective == Collective::kGather;
  const bool is_root = root == rank();
  const ConstTensor block = gather ? input : ConstTensor(output);
  const ConstTensor whole = gather ? ConstTensor(output) : input;
  const char* const block_role = gather ? "input" : "output";
  const char* const whole_role = gather ? "output" : "input";
  OperationRequest request = MoveRequest(collective, block, options);
  request.input = input.data();
  request.output = output.data();
  request.root = root;
  const size_t own = block.count();
  if (counts != nullptr) {
    const absl::Span<const size_t> mine(&own, 1);
    const absl::Span<const size_t> all = is_root ? *counts : absl::Span<const size_t>();
    request.input_counts = gather ? mine : all;
    request.output_counts = gather ? all : mine;
  }
  absl::Status arguments = CheckRank("root", root, size());
  if (arguments.ok() && !is_root) arguments = CheckTensor(block_role, block);
  if (arguments.ok() && is_root) {
    arguments = counts == nullptr ? CheckBlocks(block_role, block, whole_role, whole, size(), root)
                                  : CheckUnevenBlocks(block_role, block, whole_role, whole, *counts, size(), root);
  }
  return IssueChecked(request, std::move(arguments));
}

Work CollectiveCalls::Gather(ConstTensor input, Tensor output, int root, const CollectiveOptions& options) {
  return RootedMove(Collective::kGather, input, output, nullptr, root, options);
}

Work CollectiveCalls::GatherV(ConstTensor input, Tensor output, absl::Span<const size_t> counts, int root,
                              const CollectiveOptions& options) {
  return RootedMove(Collective::kGather, input, output, &counts, root, options);
}

Work CollectiveCalls::Scatter(ConstTensor input, Tensor output, int root, const CollectiveOptions& options) {
  return RootedMove(Collective::kScatter, input, output, nullptr, root, options);
}

Work CollectiveCalls::ScatterV(ConstTensor input, Tensor output, absl::Span<const size_t> counts, int root,
                               const CollectiveOptions& options) {
  return RootedMove(Collective::kScatter, input, output, &counts, root, options);
}

Work CollectiveCalls::AllToAll(ConstTensor input, Tensor output, const CollectiveOptions& options) {
  OperationRequest request = MoveRequest(Collective::kAllToAll, input, options);
  request.output = output.data();
  request.count = input.count() / static_cast<size_t>(size());
  absl::Status arguments = CheckApart(input, output);
  if (arguments.ok() && (input.count() != output.count() || input.count() % static_cast<size_t>(size()) != 0)) {
    arguments = absl::InvalidArgumentError(absl::StrCat("input has ", input.count(), " elements and output ",
                                                        output.count(), ": both must have the same multiple of ",
                                                        size(), ", one block for each rank"));
  }
  return IssueChecked(request, std::move(arguments));
}

Work CollectiveCalls::AllToAllV(ConstTensor input, absl::Span<const size_t> input_counts, Tensor output,
                                absl::Span<const size_t> output_counts, const CollectiveOptions& options) {
  OperationRequest request = MoveRequest(Collective::kAllToAll, input, options);
  request.output = output.data();
  request.input_counts = input_counts;
  request.output_counts = output_counts;
  absl::Status arguments = CheckApart(input, output);
  if (arguments.ok()) arguments = CheckCounts("input", input, "input_counts", input_counts, size());
  if (arguments.ok()) arguments = CheckCounts("output", output, "output_counts", output_counts, size());
  if (arguments.ok()) arguments = CheckDirectSize(size());
  const auto own = static_cast<size_t>(rank());
  if (arguments.ok() && input_counts[own] != output_counts[own]) {
    arguments = absl::InvalidArgumentError(absl::StrCat("this rank's block to itself has ", input_counts[own],
                                                        " elements in input_counts, but ", output_counts[own],
                                                        " in output_counts"));
  }
  return IssueChecked(request, std::move(arguments));
}

Work CollectiveCalls::Barrier(const CollectiveOptions& options) {
  return Issue(MoveRequest(Collective::kBarrier, ConstTensor(nullptr, 0, DataType::kUInt8), options));
}

Work CollectiveCalls::PointToPoint(Collective collective, const ConstTensor& data, void* output, int peer, bool any,
                                   const PointToPointOptions& options) {
  OperationRequest request =
      MoveRequest(collective, data, {.timeout = options.timeout, .background = options.background});
  request.output = output;
  request.root = peer;
  request.label = options.tag;
  absl::Status arguments = CheckTensor("data", data);
  if (arguments.ok() && !any) arguments = CheckRank("peer", peer, size());
  if (arguments.ok() && peer == rank()) {
    arguments = absl::InvalidArgumentError(absl::StrCat("rank ", rank(), " cannot send to, or receive from, itself"));
  }
  if (arguments.ok() && any && size() == 1)
    arguments = absl::InvalidArgumentError("there is no other rank to receive from");
  return IssueChecked(request, std::move(arguments));
}

Work CollectiveCalls::Send(ConstTensor data, int to, const PointToPointOptions& options) {
  return PointToPoint(Collective::kSend, data, nullptr, to, /*any=*/false, options);
}

Work CollectiveCalls::Recv(Tensor data, int from, const PointToPointOptions& options) {
  return PointToPoint(Collective::kRecv, data, data.data(), from, /*any=*/false, options);
}

Work CollectiveCalls::RecvAny(Tensor data, const PointToPointOptions& options) {
  return PointToPoint(Collective::kRecv, data, data.data(), kAnyPeer, /*any=*/true, options);
}

}  // namespace tutti
