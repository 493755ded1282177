#include "bench/ddp_bench/compute.h"

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
  constexpr int64_t kPasses = 100;
  int64_t passes = 0;
  std::chrono::duration<double, std::milli> elapsed(0);
  for (const Clock::time_point start = Clock::now(); elapsed.count() < 50; elapsed = Clock::now() - start) {
    Compute(kPasses);
    passes += kPasses;
  }
  return static_cast<double>(passes) / elapsed.count();
}

}  // namespace tutti
