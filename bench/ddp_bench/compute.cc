#include "bench/ddp_bench/compute.h"

#include <algorithm>
#include <array>
#include <chrono>

namespace tutti {

void Compute(int64_t passes) {
  static thread_local std::array<float, 1024> values = {};
  for (int64_t pass = 0; pass < passes; ++pass) {
    for (float& value : values) value = value * 0.999f + 0.001f;
    asm volatile("" : : "r"(values.data()) : "memory");  // every pass is to be made
  }
}

double ComputePassesPerMillisecond() {
  using Clock = std::chrono::steady_clock;
  constexpr int64_t kPasses = 1000;
  double best = 0;
  for (const Clock::time_point begin = Clock::now(); Clock::now() - begin < std::chrono::milliseconds(50);) {
    const Clock::time_point start = Clock::now();
    Compute(kPasses);
    const std::chrono::duration<double, std::milli> elapsed = Clock::now() - start;
    best = std::max(best, kPasses / elapsed.count());
  }
  return best;
}

}  // namespace tutti
