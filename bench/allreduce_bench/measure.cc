#include "bench/allreduce_bench/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>

#include "bench/allreduce_bench/elements.h"
#include "src/base/status_macros.h"

namespace tutti {
namespace {

// Aligned to pages either way, so that only who may address it makes the difference.
absl::StatusOr<Buffer> AllocateBytes(ProcessGroup& group, bool from_library, uint64_t bytes) {
  if (from_library) return group.Allocate(bytes);
  constexpr size_t kPage = 4096;
  void* memory = std::aligned_alloc(kPage, (bytes + kPage) / kPage * kPage);
  if (memory == nullptr) return absl::ResourceExhaustedError("no memory for the buffers");
  std::memset(memory, 0, bytes);
  return Buffer(std::shared_ptr<void>(memory, std::free), bytes);
}

double Microseconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

// Element-wise the slowest rank's, then over the iterations.
absl::StatusOr<Sample> Summarize(ProcessGroup& group, std::vector<double> times) {
  TUTTI_RETURN_IF_ERROR(group.AllReduce(absl::MakeSpan(times), {.op = ReduceOp::kMax}).Wait());
  Sample sample;
  if (times.empty()) return sample;
  std::sort(times.begin(), times.end());
  sample.average = std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
  sample.minimum = times.front();
  sample.median = times[times.size() / 2];
  sample.p99 = times[std::min(times.size() - 1, times.size() * 99 / 100)];
  sample.maximum = times.back();
  return sample;
}

class Runner {
 public:
  Runner(ProcessGroup& group, const BenchOptions& options, DataType type, ReduceOp op, Tensor pattern)
      : group_(group), options_(options), type_(type), op_(op), pattern_(pattern) {}

  absl::StatusOr<Sample> Run(Tensor input, Tensor output) {
    std::vector<double> times;
    for (int i = -options_.warmup_iterations; i < options_.iterations; ++i) {
      std::memcpy(input.data(), pattern_.data(), pattern_.bytes());
      if (i == 0) TUTTI_RETURN_IF_ERROR(group_.Barrier().Wait());
      const auto start = std::chrono::steady_clock::now();
      if (group_.rank() == options_.delay_rank) {
        std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(options_.delay_milliseconds));
      }
      TUTTI_RETURN_IF_ERROR(group_.AllReduce(input, output, {.op = op_}).Wait());
      if (i >= 0) times.push_back(Microseconds(std::chrono::steady_clock::now() - start));
      Read(output);
    }
    TUTTI_ASSIGN_OR_RETURN(Sample sample, Summarize(group_, std::move(times)));
    if (options_.check && options_.iterations > 0) TUTTI_RETURN_IF_ERROR(Check(output, sample));
    return sample;
  }

 private:
  void Read(const Tensor& output) {
    const auto* bytes = static_cast<const volatile unsigned char*>(output.data());
    for (size_t i = 0; i < output.bytes(); i += 64) (void)bytes[i];
  }

  absl::Status Check(Tensor output, Sample& sample) {
    if (options_.corrupt_one_element && group_.rank() == 0 && output.count() > 0)
      CorruptElement(output, output.count() / 2);
    const WrongElements wrong = CompareElements(output, op_, group_.size());
    std::vector<uint64_t> total = {wrong.count};
    std::vector<uint64_t> first = {wrong.count > 0 ? wrong.first : UINT64_MAX};
    TUTTI_RETURN_IF_ERROR(group_.AllReduce(absl::MakeSpan(total)).Wait());
    TUTTI_RETURN_IF_ERROR(group_.AllReduce(absl::MakeSpan(first), {.op = ReduceOp::kMin}).Wait());
    sample.wrong_elements = total[0];
    sample.first_wrong = first[0];
    return absl::OkStatus();
  }

  ProcessGroup& group_;
  const BenchOptions& options_;
  const DataType type_;
  const ReduceOp op_;
  const Tensor pattern_;
};

}  // namespace

absl::StatusOr<Measurement> Measure(ProcessGroup& group, const BenchOptions& options, uint64_t bytes, DataType type,
                                    ReduceOp op) {
  Measurement measurement;
  measurement.count = bytes / ByteSize(type);
  measurement.bytes = measurement.count * ByteSize(type);
  measurement.type = type;
  measurement.op = op;
  TUTTI_ASSIGN_OR_RETURN(Buffer pattern, AllocateBytes(group, false, measurement.bytes));
  TUTTI_ASSIGN_OR_RETURN(Buffer input, AllocateBytes(group, options.library_buffers, measurement.bytes));
  TUTTI_ASSIGN_OR_RETURN(Buffer output, AllocateBytes(group, options.library_buffers, measurement.bytes));
  FillElements(pattern.tensor(0, measurement.count, type), op, group.rank());
  Runner runner(group, options, type, op, pattern.tensor(0, measurement.count, type));
  const Tensor in = input.tensor(0, measurement.count, type);
  TUTTI_ASSIGN_OR_RETURN(measurement.out_of_place, runner.Run(in, output.tensor(0, measurement.count, type)));
  TUTTI_ASSIGN_OR_RETURN(measurement.in_place, runner.Run(in, in));
  return measurement;
}

double AlgorithmBandwidth(uint64_t bytes, double microseconds) {
  return microseconds > 0 ? static_cast<double>(bytes) / microseconds / 1e3 : 0;
}

double BusBandwidth(uint64_t bytes, double microseconds, int size) {
  return AlgorithmBandwidth(bytes, microseconds) * 2 * (size - 1) / size;
}

}  // namespace tutti
