#include "bench/peers/peer.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "bench/timing/timing.h"

namespace tutti {
namespace {

constexpr size_t kPeriod = 16;

// Small whole numbers: their sums are exact, in whatever order.
float Input(int rank, size_t index) { return static_cast<float>((index + 3 * static_cast<size_t>(rank)) % kPeriod); }

std::shared_ptr<float> AllocatePages(size_t count) {
  constexpr size_t kPage = 4096;
  auto* memory = static_cast<float*>(std::aligned_alloc(kPage, (count * sizeof(float) + kPage) / kPage * kPage));
  return {memory, [](float* pages) { std::free(pages); }};
}

size_t CountWrong(absl::Span<const float> data, int size) {
  float expected[kPeriod] = {};
  for (size_t i = 0; i < kPeriod; ++i) {
    for (int rank = 0; rank < size; ++rank) expected[i] += Input(rank, i);
  }
  size_t wrong = 0;
  for (size_t i = 0; i < data.size(); ++i) wrong += data[i] != expected[i % kPeriod];
  return wrong;
}

int Measure(Peer& peer, size_t count, int iterations, int warmup_iterations) {
  const size_t bytes = count * sizeof(float);
  const std::shared_ptr<float> pattern = AllocatePages(count);
  const std::shared_ptr<float> data = peer.Allocate(count);
  if (pattern == nullptr || data == nullptr) {
    std::fprintf(stderr, "no memory for buffers of %zu bytes\n", bytes);
    return 1;
  }
  for (size_t i = 0; i < count; ++i) pattern.get()[i] = Input(peer.rank(), i);
  const std::function<void()> all_reduce = peer.PrepareAllReduce(absl::MakeSpan(data.get(), count));
  const absl::StatusOr<Times> times = TimeOperation(
      {.fill = [&] { std::memcpy(data.get(), pattern.get(), bytes); },
       .run = [&] { return all_reduce(), absl::OkStatus(); },
       .read = [&] { ReadMemory(data.get(), bytes); },
       .barrier = [&] { return peer.Barrier(), absl::OkStatus(); },
       .max_over_ranks = [&](absl::Span<double> values) { return peer.MaxOverRanks(values), absl::OkStatus(); }},
      warmup_iterations, iterations);
  double wrong = peer.reduces() ? static_cast<double>(CountWrong(absl::MakeSpan(data.get(), count), peer.size())) : 0;
  peer.MaxOverRanks(absl::MakeSpan(&wrong, 1));
  if (peer.rank() == 0) {
    std::printf("result bytes=%zu iterations=%d median_us=%.3f min_us=%.3f p99_us=%.3f max_us=%.3f wrong=%.0f\n", bytes,
                iterations, times->median, times->minimum, times->p99, times->maximum, wrong);
    std::fflush(stdout);
  }
  return wrong == 0 ? 0 : 1;
}

}  // namespace

std::shared_ptr<float> Peer::Allocate(size_t count) { return AllocatePages(count); }

int RunPeer(Peer& peer, int argc, char** argv) {
  uint64_t bytes = 0;
  int iterations = 0;
  int warmup_iterations = 0;
  if (argc < 4 || !absl::SimpleAtoi(argv[argc - 3], &bytes) || bytes == 0 || bytes % sizeof(float) != 0 ||
      !absl::SimpleAtoi(argv[argc - 2], &iterations) || iterations <= 0 ||
      !absl::SimpleAtoi(argv[argc - 1], &warmup_iterations) || warmup_iterations < 0) {
    std::fprintf(stderr, "%s: expected BYTES (a multiple of 4), ITERATIONS and WARMUP_ITERATIONS at the end\n",
                 argv[0]);
    return 2;
  }
  return Measure(peer, bytes / sizeof(float), iterations, warmup_iterations);
}

}  // namespace tutti
