// The reduction kernels on one core.
//
// Workloads, each from the first-level cache (8 KiB an array) to DRAM (64 MiB):
//   Fp32SumOfTwo   against its rivals in turns, every iteration: `ratio` is the median of rival time / our time;
//                  arrays that begin at a page, or 16 bytes behind one
//     hand loop    a[i] = b[i] + c[i] in intrinsics of the same vector size
//     stream add   the same in plain C++ at the compiler's discretion
//   Reduce         other types, operators and numbers of sources, and the instruction sets below the chosen one
//
// bytes_per_second counts every byte read and written once: (sources + 1) * count * element size. Run it on an idle
// core; on a shared one believe the ratios only.

#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "benchmark/benchmark.h"
#include "src/reduce/reduce.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

using tutti::DataType;
using tutti::InstructionSet;
using tutti::KernelsFor;
using tutti::ReduceKernels;
using tutti::ReduceOp;

using AddLoop = void (*)(float* a, const float* b, const float* c, size_t count);

void StreamAdd(float* __restrict a, const float* __restrict b, const float* __restrict c, size_t count) {
  for (size_t i = 0; i < count; ++i) a[i] = b[i] + c[i];
}

#if defined(__x86_64__)
void HandAddSse(float* a, const float* b, const float* c, size_t count) {
  for (size_t i = 0; i < count; i += 4) _mm_storeu_ps(a + i, _mm_add_ps(_mm_loadu_ps(b + i), _mm_loadu_ps(c + i)));
}

[[gnu::target("avx2")]] void HandAddAvx2(float* a, const float* b, const float* c, size_t count) {
  for (size_t i = 0; i < count; i += 8) {
    _mm256_storeu_ps(a + i, _mm256_add_ps(_mm256_loadu_ps(b + i), _mm256_loadu_ps(c + i)));
  }
}

[[gnu::target("avx512f")]] void HandAddAvx512(float* a, const float* b, const float* c, size_t count) {
  for (size_t i = 0; i < count; i += 16) {
    _mm512_storeu_ps(a + i, _mm512_add_ps(_mm512_loadu_ps(b + i), _mm512_loadu_ps(c + i)));
  }
}

AddLoop HandAdd() {
  switch (tutti::ChosenInstructionSet()) {
    case InstructionSet::kBaseline:
      return HandAddSse;
    case InstructionSet::kAvx2:
      return HandAddAvx2;
    case InstructionSet::kAvx512:
      return HandAddAvx512;
  }
  return HandAddSse;
}
#else
AddLoop HandAdd() { return StreamAdd; }
#endif

// Of this thread's processor time, which others on the core do not add to.
double Now() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <typename Function>
double Seconds(size_t repeats, const Function& function) {
  const double begin = Now();
  for (size_t i = 0; i < repeats; ++i) {
    function();
    benchmark::ClobberMemory();
  }
  return Now() - begin;
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// An array that begins `offset` bytes behind a page: at 0 as buffers of the library do, at 16 as large ones of malloc.
class Array {
 public:
  Array(size_t bytes, size_t offset) : storage_(bytes + 2 * kPage, 1) {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data());
    begin_ = storage_.data() + (kPage - address % kPage) + offset;
  }
  Array(Array&&) = default;
  char* data() const { return begin_; }
  float* floats() const { return reinterpret_cast<float*>(begin_); }

 private:
  static constexpr size_t kPage = 4096;
  std::vector<char> storage_;
  char* begin_;
};

void Fp32SumOfTwo(benchmark::State& state, AddLoop rival, size_t offset) {
  const size_t bytes = static_cast<size_t>(state.range(0));
  const size_t count = bytes / sizeof(float);
  const size_t repeats = std::max<size_t>(1, (size_t{1} << 20) / bytes);
  const Array a(bytes, offset), b(bytes, offset), c(bytes, offset);
  const void* const sources[] = {b.data(), c.data()};
  const tutti::ReduceFunction reduce = KernelsFor(DataType::kFloat32, ReduceOp::kSum).reduce;
  std::vector<double> ours, theirs, ratios;
  for (auto _ : state) {
    ours.push_back(Seconds(repeats, [&] { reduce(a.data(), sources, 2, count, 1); }));
    theirs.push_back(Seconds(repeats, [&] { rival(a.floats(), b.floats(), c.floats(), count); }));
    ratios.push_back(theirs.back() / ours.back());
    state.SetIterationTime(ours.back());
  }
  const double touched = 3.0 * static_cast<double>(bytes * repeats);
  state.counters["ours_GB/s"] = touched / Median(ours) / 1e9;
  state.counters["rival_GB/s"] = touched / Median(theirs) / 1e9;
  state.counters["ratio"] = Median(ratios);
}

struct Workload {
  DataType type;
  ReduceOp op;
  int sources;
  double divisor;
};

constexpr Workload kWorkloads[] = {
    {DataType::kFloat32, ReduceOp::kSum, 2, 1},     {DataType::kFloat32, ReduceOp::kSum, 4, 1},
    {DataType::kFloat32, ReduceOp::kSum, 8, 1},     {DataType::kFloat32, ReduceOp::kSum, 7, 1},
    {DataType::kFloat32, ReduceOp::kSum, 16, 1},    {DataType::kFloat32, ReduceOp::kAverage, 4, 4},
    {DataType::kFloat32, ReduceOp::kAverage, 3, 3}, {DataType::kFloat32, ReduceOp::kMax, 2, 1},
    {DataType::kBFloat16, ReduceOp::kSum, 2, 1},    {DataType::kBFloat16, ReduceOp::kSum, 8, 1},
    {DataType::kFloat16, ReduceOp::kSum, 2, 1},     {DataType::kFloat16, ReduceOp::kSum, 8, 1},
    {DataType::kInt8, ReduceOp::kSum, 2, 1},        {DataType::kInt32, ReduceOp::kAverage, 2, 2},
};

void Reduce(benchmark::State& state, ReduceKernels kernels, Workload workload) {
  const size_t bytes = static_cast<size_t>(state.range(0));
  const size_t count = bytes / tutti::ByteSize(workload.type);
  std::vector<Array> inputs;
  for (int i = 0; i < workload.sources; ++i) inputs.emplace_back(bytes, 0);
  const Array result(bytes, 0);
  std::vector<const void*> sources;
  for (const auto& input : inputs) sources.push_back(input.data());
  for (auto _ : state) {
    kernels.reduce(result.data(), sources.data(), sources.size(), count, workload.divisor);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes) * (workload.sources + 1));
}

[[maybe_unused]] const bool kRegistered = [] {
  auto sizes = [](benchmark::internal::Benchmark* benchmark) {
    for (int64_t bytes : {8 << 10, 256 << 10, 4 << 20, 64 << 20}) benchmark->Arg(bytes);
  };
  for (size_t offset : {0, 16}) {
    const auto add = [&](absl::string_view rival, AddLoop loop) {
      const std::string name = absl::StrCat("Fp32SumOfTwo/", rival, "/offset:", offset);
      benchmark::RegisterBenchmark(name.c_str(), Fp32SumOfTwo, loop, offset)->Apply(sizes)->UseManualTime();
    };
    add("hand_loop", HandAdd());
    add("stream_add", &StreamAdd);
  }
  for (InstructionSet set : {InstructionSet::kBaseline, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    for (const Workload& workload : kWorkloads) {
      const auto kernels = KernelsFor(workload.type, workload.op, set);
      if (!kernels.ok()) continue;
      const std::string name = absl::StrCat("Reduce/", tutti::Name(set), "/", tutti::Name(workload.type), "/",
                                            tutti::Name(workload.op), "/", workload.sources);
      benchmark::RegisterBenchmark(name.c_str(), Reduce, *kernels, workload)->Apply(sizes);
    }
  }
  return true;
}();

}  // namespace
