// ProcessGroup: the ranks of a job, and the collectives among them.
//
//   absl::StatusOr<std::unique_ptr<tutti::ProcessGroup>> group = tutti::ProcessGroup::Create();
//   if (!group.ok()) return Fail(group.status());
//   std::vector<float> x(1024, 1.0f);
//   absl::Status status = (*group)->AllReduce(absl::MakeSpan(x)).Wait();   // x[i] == (*group)->size()

#ifndef TUTTI_PROCESS_GROUP_H_
#define TUTTI_PROCESS_GROUP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tutti/buffer.h"
#include "tutti/data_type.h"
#include "tutti/tensor.h"
#include "tutti/work.h"

namespace tutti {

// How a process finds its group. Whatever is left at its default is taken from the environment (docs/ENVIRONMENT.md
// lists the variables and their precedence); a field that is set wins over the environment.
struct ProcessGroupOptions {
  // Where the ranks meet: "env://" (MASTER_ADDR and MASTER_PORT), "tcp://host:port", "file:///path".
  // tcp:// and file:// accept ?rank=R&world_size=N.
  std::string init_method = "env://";
  // 0 <= rank < world_size; -1: from the URL or the environment.
  int rank = -1;
  int world_size = -1;

  // Bounds the rendezvous and every operation that has no time-out of its own. Zero: TUTTI_TIMEOUT, or 5 minutes.
  absl::Duration timeout = absl::ZeroDuration();

  // Ranks of another job are refused. Empty: TUTTI_JOB_ID, or the launcher's, or "default".
  std::string job_id = "";
  // Interface names, prefixes, ^exclusions or CIDR blocks, separated by commas. Empty: TUTTI_SOCKET_IFNAME and its
  // aliases, or else the interface that routes to the master.
  std::string socket_interface = "";
  // "first-last": every listener of this process takes its port from here. Empty: TUTTI_PORT_RANGE, or any port.
  std::string port_range = "";
  // Rules for the choice of algorithms, before the built-in ones (docs/ENVIRONMENT.md). Rank 0's are used by all ranks.
  // Empty: TUTTI_SELECTION.
  std::string selection = "";
};

struct CollectiveOptions {
  // Zero: the group's time-out. Counts from the call.
  absl::Duration timeout = absl::ZeroDuration();
  // Wakes the progress thread at once, at the price of a few microseconds: for an operation that will not be waited for
  // soon. Otherwise the thread takes over about a millisecond after the call if nobody waits.
  bool background = false;
};

struct ReduceOptions {
  ReduceOp op = ReduceOp::kSum;
  // The result is divided by this, once, after the reduction and before the only rounding of 16-bit types: in fp64 for
  // float64, in fp32 for other floating-point types, in 64 bits and truncating toward zero for integers, which need a
  // whole number of at least 1. kAverage divides by size() as well. Must be finite and not 0; only for kSum and
  // kAverage.
  double divisor = 1.0;
  absl::Duration timeout = absl::ZeroDuration();
  bool background = false;
};

// For Send and Recv.
struct PointToPointOptions {
  // A receive takes only messages with its own tag.
  uint32_t tag = 0;
  // Zero: the group's time-out. Counts from the call.
  absl::Duration timeout = absl::ZeroDuration();
  bool background = false;  // as in CollectiveOptions
};

// One rank's member of a group. Every rank calls the same collectives, with the same arguments where they must agree,
// in the same order:
//
//   right                            wrong: kFailedPrecondition on every rank, naming both sides
//   rank 0: AllReduce(a) Barrier()   rank 0: AllReduce(a) Barrier()
//   rank 1: AllReduce(a) Barrier()   rank 1: Barrier() AllReduce(a)
//
// What cannot be told apart is not noticed: two calls with equal operation, type and count, swapped on one rank.
//
// A process may be in many groups; each is independent of the others, in its threads as well.
//
// Thread-safe in that calls from several threads never corrupt anything; but the order in which collectives are called
// is part of their meaning, so threads that share a group must agree on an order that is the same on all ranks.
//
// The first error of a group is final: it reaches all ranks, it is what every operation in flight and every later one
// returns, and the group can then only be destroyed. Destruction is local and bounded; operations in flight end with
// kCancelled. Errors are listed at Work::Wait. In a forked child every call fails with kFailedPrecondition.
//
// Counts may be 0. Tensors may lie anywhere; in place (input and output the same memory) is allowed where stated, other
// overlap is refused.
class ProcessGroup {
 public:
  // Blocks until all ranks have met, at most `options.timeout`. All problems of the options and the environment are
  // reported in one message, before any socket is opened.
  static absl::StatusOr<std::unique_ptr<ProcessGroup>> Create(const ProcessGroupOptions& options = {});

  virtual ~ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // --- Reductions ---

  // data[i] = op over ranks of data[i]. Same count and type on all ranks.
  virtual Work AllReduce(Tensor data, const ReduceOptions& options = {}) = 0;
  // output[i] = op over ranks of input[i]. Same count and type; input may be output.
  virtual Work AllReduce(ConstTensor input, Tensor output, const ReduceOptions& options = {}) = 0;

  // On rank root, output[i] = op over ranks of input[i]; input may be output. Elsewhere output is not touched, and may
  // be empty.
  virtual Work Reduce(ConstTensor input, Tensor output, int root, const ReduceOptions& options = {}) = 0;

  // input has size() * c elements, output c; output[i] = op over ranks of input[rank() * c + i]. In place: output is
  // input's part of this rank.
  virtual Work ReduceScatter(ConstTensor input, Tensor output, const ReduceOptions& options = {}) = 0;
  // Blocks of different sizes: input consists of a block of counts[r] elements for each rank r, in order; output is
  // that of this rank. Same counts on all ranks; zero is allowed.
  virtual Work ReduceScatterV(ConstTensor input, Tensor output, absl::Span<const size_t> counts,
                              const ReduceOptions& options = {}) = 0;

  // --- Moves: any type, nothing is computed ---

  // input has c elements, output size() * c; output[r * c + i] = input[i] of rank r. In place: input is output's part
  // of this rank.
  virtual Work AllGather(ConstTensor input, Tensor output, const CollectiveOptions& options = {}) = 0;
  // Blocks of different sizes: input has counts[rank()] elements, output one block of counts[r] for each rank r, in
  // order. Same counts on all ranks; zero is allowed.
  virtual Work AllGatherV(ConstTensor input, Tensor output, absl::Span<const size_t> counts,
                          const CollectiveOptions& options = {}) = 0;

  // data[i] = data[i] of rank root. Same count, type and root.
  virtual Work Broadcast(Tensor data, int root, const CollectiveOptions& options = {}) = 0;

  // AllGather, of which only rank root gets the output. Elsewhere output may be empty.
  virtual Work Gather(ConstTensor input, Tensor output, int root, const CollectiveOptions& options = {}) = 0;
  // `counts` matter on rank root only, where counts[r] is what rank r brings.
  virtual Work GatherV(ConstTensor input, Tensor output, absl::Span<const size_t> counts, int root,
                       const CollectiveOptions& options = {}) = 0;

  // output[i] = input[rank() * c + i] of rank root, where input has size() * c elements and every output c. Elsewhere
  // input may be empty. In place on root: output is input's part of root.
  virtual Work Scatter(ConstTensor input, Tensor output, int root, const CollectiveOptions& options = {}) = 0;
  // `counts` matter on rank root only, where counts[r] is what rank r gets.
  virtual Work ScatterV(ConstTensor input, Tensor output, absl::Span<const size_t> counts, int root,
                        const CollectiveOptions& options = {}) = 0;

  // input and output have size() * c elements: block r of the input goes to rank r, block r of the output comes from
  // rank r. Never in place.
  virtual Work AllToAll(ConstTensor input, Tensor output, const CollectiveOptions& options = {}) = 0;
  // Blocks of different sizes: input_counts[r] go to rank r, output_counts[r] come from it. What this rank expects from
  // another must be what that one sends to it; otherwise the group ends with an error that gives both numbers.
  virtual Work AllToAllV(ConstTensor input, absl::Span<const size_t> input_counts, Tensor output,
                         absl::Span<const size_t> output_counts, const CollectiveOptions& options = {}) = 0;

  // Done when every rank has called it. If some do not come in time, the error on the others names each of them.
  virtual Work Barrier(const CollectiveOptions& options = {}) = 0;

  // --- One rank to another ---

  // Calls with the same tag between the same two ranks match in order, and must agree in count and type. Send is done
  // when `data` may be reused, which may be before the peer has called Recv. Independent of the order of the
  // collectives.
  virtual Work Send(ConstTensor data, int to, const PointToPointOptions& options = {}) = 0;
  virtual Work Recv(Tensor data, int from, const PointToPointOptions& options = {}) = 0;
  // From whichever rank sends first with this tag; Work::source() says which it was. Connects to every rank.
  virtual Work RecvAny(Tensor data, const PointToPointOptions& options = {}) = 0;

  // Issues all operations that `calls` calls on its argument as one: they leave together when `calls` returns, and the
  // result is done when all are, with the first error. So sends and receives may be written down in any order:
  //
  //   Work both = group->Batch([&](ProcessGroup& batch) {
  //     batch.Send(mine, next);
  //     batch.Recv(theirs, previous);
  //   });
  //
  // The Works returned within are valid too, but to Wait for one within `calls` is an error (kFailedPrecondition). If
  // an argument is refused, nothing is issued, and the result is that error. Batches do not nest.
  virtual Work Batch(absl::FunctionRef<void(ProcessGroup& batch)> calls) = 0;

  // A collective of this group that makes new ones: the ranks that pass the same `color`, 0 or more, are the members of
  // one, ordered by `key`, and by their rank here where keys are equal. A rank that passes -1 takes part and gets a
  // null pointer. Any other color is an error, on every rank. Blocks, at most for the group's time-out.
  //
  // The new group is independent of this one: it may be used beside it from another thread, outlive it, be split
  // again, and fails by itself; but a process that dies ends every group that it is a member of. Ranks in messages are
  // those of the group that fails, which names itself in them.
  virtual absl::StatusOr<std::unique_ptr<ProcessGroup>> Split(int color, int key) = 0;

  // Memory that transports can reduce in place. Not a collective. kResourceExhausted if there is none.
  virtual absl::StatusOr<Buffer> Allocate(size_t bytes) = 0;

  // Ends the group on every rank: operations in flight and later ones return kAborted with this message and this rank.
  virtual void Abort(absl::Status why) = 0;

  // The first error of the group; OK while there is none.
  virtual absl::Status status() const = 0;

  // What was chosen and why: addresses, interface, transport, time-out, reduction kernels, switch points. One line
  // each, "name = value (reason)".
  virtual std::string Describe() const = 0;

 protected:
  ProcessGroup() = default;
};

}  // namespace tutti

#endif  // TUTTI_PROCESS_GROUP_H_
