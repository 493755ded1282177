// CollectiveCalls: from the calls of ProcessGroup to checked requests, whoever issues them.

#ifndef TUTTI_SRC_GROUP_CALLS_H_
#define TUTTI_SRC_GROUP_CALLS_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/engine/operation.h"
#include "tutti/process_group.h"

namespace tutti {

class CollectiveCalls : public ProcessGroup {
 public:
  struct Scope {
    int rank = 0;
    int size = 1;
    absl::Duration timeout;  // of operations that have none of their own
  };

  explicit CollectiveCalls(const Scope& scope) : scope_(scope) {}

  int rank() const final { return scope_.rank; }
  int size() const final { return scope_.size; }

  Work AllReduce(Tensor data, const ReduceOptions& options) final;
  Work AllReduce(ConstTensor input, Tensor output, const ReduceOptions& options) final;
  Work Reduce(ConstTensor input, Tensor output, int root, const ReduceOptions& options) final;
  Work ReduceScatter(ConstTensor input, Tensor output, const ReduceOptions& options) final;
  Work ReduceScatterV(ConstTensor input, Tensor output, absl::Span<const size_t> counts,
                      const ReduceOptions& options) final;
  Work AllGather(ConstTensor input, Tensor output, const CollectiveOptions& options) final;
  Work AllGatherV(ConstTensor input, Tensor output, absl::Span<const size_t> counts,
                  const CollectiveOptions& options) final;
  Work Broadcast(Tensor data, int root, const CollectiveOptions& options) final;
  Work Gather(ConstTensor input, Tensor output, int root, const CollectiveOptions& options) final;
  Work GatherV(ConstTensor input, Tensor output, absl::Span<const size_t> counts, int root,
               const CollectiveOptions& options) final;
  Work Scatter(ConstTensor input, Tensor output, int root, const CollectiveOptions& options) final;
  Work ScatterV(ConstTensor input, Tensor output, absl::Span<const size_t> counts, int root,
                const CollectiveOptions& options) final;
  Work AllToAll(ConstTensor input, Tensor output, const CollectiveOptions& options) final;
  Work AllToAllV(ConstTensor input, absl::Span<const size_t> input_counts, Tensor output,
                 absl::Span<const size_t> output_counts, const CollectiveOptions& options) final;
  Work Barrier(const CollectiveOptions& options) final;
  Work Send(ConstTensor data, int to, const PointToPointOptions& options) final;
  Work Recv(Tensor data, int from, const PointToPointOptions& options) final;
  Work RecvAny(Tensor data, const PointToPointOptions& options) final;

 protected:
  // The request is good.
  virtual Work Issue(const OperationRequest& request) = 0;
  // Something about the call can never work.
  virtual Work Refuse(absl::Status why) = 0;
  const Scope& scope() const { return scope_; }

 private:
  Work IssueChecked(const OperationRequest& request, absl::Status arguments);
  // Checks operator and divisor besides.
  Work IssueReduction(const OperationRequest& request, const ReduceOptions& options, absl::Status arguments);
  Work PointToPoint(Collective collective, const ConstTensor& data, void* output, int peer, bool any,
                    const PointToPointOptions& options);
  // Gather or scatter; `counts`, if not null, are those of uneven blocks, which matter on the root only.
  Work RootedMove(Collective collective, const ConstTensor& input, const Tensor& output,
                  const absl::Span<const size_t>* counts, int root, const CollectiveOptions& options);
  OperationRequest ReductionRequest(Collective collective, const ConstTensor& input, const Tensor& output,
                                    const ReduceOptions& options) const;
  OperationRequest MoveRequest(Collective collective, const ConstTensor& input, const CollectiveOptions& options) const;
  absl::Duration Timeout(absl::Duration asked) const { return asked > absl::ZeroDuration() ? asked : scope_.timeout; }

  const Scope scope_;
};

}  // namespace tutti

#endif  // TUTTI_SRC_GROUP_CALLS_H_
