#include "bench/timing/timing.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <vector>

namespace tutti {
namespace {

Times Summarize(std::vector<double> times) {
  Times summary;
  if (times.empty()) return summary;
  std::sort(times.begin(), times.end());
  summary.average = std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
  summary.minimum = times.front();
  summary.median = times[times.size() / 2];
  summary.p99 = times[std::min(times.size() - 1, times.size() * 99 / 100)];
  summary.maximum = times.back();
  return summary;
}

}  // namespace

absl::StatusOr<Times> TimeOperation(const TimedOperation& operation, int warmup_iterations, int iterations) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  for (int i = -warmup_iterations; i < iterations; ++i) {
    operation.fill();
    if (i == 0) {
      if (absl::Status status = operation.barrier(); !status.ok()) return status;
    }
    const Clock::time_point start = Clock::now();
    if (absl::Status status = operation.run(); !status.ok()) return status;
    const std::chrono::duration<double, std::micro> elapsed = Clock::now() - start;
    if (i >= 0) times.push_back(elapsed.count());
    operation.read();
  }
  if (absl::Status status = operation.max_over_ranks(absl::MakeSpan(times)); !status.ok()) return status;
  return Summarize(std::move(times));
}

void ReadMemory(const void* data, size_t bytes) {
  const auto* first = static_cast<const volatile unsigned char*>(data);
  for (size_t i = 0; i < bytes; i += 64) (void)first[i];
}

}  // namespace tutti
