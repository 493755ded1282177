// Times training steps, with and without communication.

#ifndef TUTTI_BENCH_DDP_BENCH_MEASURE_H_
#define TUTTI_BENCH_DDP_BENCH_MEASURE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/ddp_bench/model.h"
#include "bench/ddp_bench/options.h"
#include "tutti/process_group.h"

namespace tutti {

// One entry per timed step, in milliseconds, that of the slowest rank.
struct Measurement {
  std::vector<double> compute;        // backward without communication: the same work, the same gradients written
  std::vector<double> step;           // the same with the bucketer, from BeginWindow to the end of Finish
  std::vector<double> communication;  // all buckets, with nothing to compute in between
  double divisor = 0;
  uint64_t bytes = 0;  // reduced in a step
  int collectives = 0;
  uint64_t wrong_elements = 0;  // of all ranks, in all steps; every element of every reduced gradient is compared
};

// Every rank calls it with the same arguments. The three kinds of steps take turns, so that a machine that drifts does
// not favour one of them; the ranks meet before each.
absl::StatusOr<Measurement> MeasureTraining(ProcessGroup& group, const Model& model, const DdpOptions& options);

}  // namespace tutti

#endif  // TUTTI_BENCH_DDP_BENCH_MEASURE_H_
