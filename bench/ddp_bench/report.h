// The results of ddp_bench as text and as JSON.

#ifndef TUTTI_BENCH_DDP_BENCH_REPORT_H_
#define TUTTI_BENCH_DDP_BENCH_REPORT_H_

#include <string>

#include "absl/status/status.h"
#include "bench/ddp_bench/measure.h"

namespace tutti {

// Milliseconds, over the steps.
struct Spread {
  double median = 0, lowest = 0, highest = 0;
};

struct DdpResult {
  std::string model;
  size_t elements = 0, tensors = 0;
  int ranks = 0, steps = 0;
  Spread compute, step, communication;
  Spread exposed;              // step - compute, of each pair
  double overlap_percent = 0;  // 100 (1 - exposed / communication), of the medians, from 0 to 100
  double divisor = 0;
  uint64_t bytes = 0;
  int collectives = 0;
  uint64_t wrong_elements = 0;
};

DdpResult Summarize(const std::string& name, const Model& model, int ranks, const Measurement& measurement);

std::string Table(const DdpResult& result);
absl::Status WriteJson(const std::string& path, const DdpResult& result);

}  // namespace tutti

#endif  // TUTTI_BENCH_DDP_BENCH_REPORT_H_
