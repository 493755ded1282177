// The table of nccl-tests, with our columns behind theirs, and JSON.

#ifndef TUTTI_BENCH_ALLREDUCE_BENCH_REPORT_H_
#define TUTTI_BENCH_ALLREDUCE_BENCH_REPORT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bench/allreduce_bench/measure.h"
#include "bench/allreduce_bench/options.h"

namespace tutti {

std::string TableHeader(const BenchOptions& options, int size);
std::string TableRow(BenchCollective collective, const Measurement& measurement, int size);
// "# Out of bounds values", "# Avg bus bandwidth", and the end.
std::string TableFooter(BenchCollective collective, const std::vector<Measurement>& measurements, int size);

absl::Status WriteJson(const std::string& path, BenchCollective collective,
                       const std::vector<Measurement>& measurements, int size);

}  // namespace tutti

#endif  // TUTTI_BENCH_ALLREDUCE_BENCH_REPORT_H_
