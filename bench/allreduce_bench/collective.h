// The collectives that can be timed: how each is called, how much of the data each side has, and what is right.
//
// "The whole" is what the message size counts, as in nccl-tests: the input of a reduce-scatter, the output of an
// all-gather. The other side of these has the part of one rank, the whole over the number of ranks.

#ifndef TUTTI_BENCH_ALLREDUCE_BENCH_COLLECTIVE_H_
#define TUTTI_BENCH_ALLREDUCE_BENCH_COLLECTIVE_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "bench/allreduce_bench/elements.h"
#include "tutti/process_group.h"

namespace tutti {

enum class BenchCollective {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kReduce,
  kGather,
  kScatter,
  kAllToAll
};

constexpr int kRoot = 0;

// Names on the command line, and nccl-tests' names of its programs.
const std::map<std::string, BenchCollective>& BenchCollectiveNames();
absl::string_view Name(BenchCollective collective);

struct CollectiveTraits {
  bool in_place = true;  // else only out of place
  bool reduces = false;  // takes an operator
  bool rooted = false;   // has a root: kRoot
  bool to_root = false;  // which alone gets a result
  bool input_is_part = false;
  bool output_is_part = false;
};
CollectiveTraits Traits(BenchCollective collective);

// What each rank's link must carry at least, over the message size (doc/PERFORMANCE.md of nccl-tests).
double BusFactor(BenchCollective collective, int size);

// Input and output may be the same memory, or one the other's part of this rank, if it runs in place. A broadcast reads
// the root's input and writes the others' output.
Work Start(ProcessGroup& group, BenchCollective collective, Tensor input, Tensor output, ReduceOp op);

// The output of this rank, if rank r's input was filled by FillElements with r. Nothing is expected of the root's
// output of a broadcast.
WrongElements CompareOutput(const ProcessGroup& group, BenchCollective collective, Tensor output, ReduceOp op);

}  // namespace tutti

#endif  // TUTTI_BENCH_ALLREDUCE_BENCH_COLLECTIVE_H_
