#include "bench/allreduce_bench/measure.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

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

class Runner {
 public:
  Runner(ProcessGroup& group, const BenchOptions& options, DataType type, ReduceOp op, Tensor pattern)
      : group_(group), options_(options), type_(type), op_(op), pattern_(pattern) {}

  absl::StatusOr<Sample> Run(Tensor input, Tensor output) {
    const TimedOperation operation = {
        .fill = [&] { std::memcpy(input.data(), pattern_.data(), pattern_.bytes()); },
        .run =
            [&] {
              if (group_.rank() == options_.delay_rank) {
                std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(options_.delay_milliseconds));
              }
              return group_.AllReduce(input, output, {.op = op_}).Wait();
            },
        .read = [&] { ReadMemory(output.data(), output.bytes()); },
        .barrier = [&] { return group_.Barrier().Wait(); },
        .max_over_ranks =
            [&](absl::Span<double> times) { return group_.AllReduce(times, {.op = ReduceOp::kMax}).Wait(); },
    };
    Sample sample;
    TUTTI_ASSIGN_OR_RETURN(sample.times, TimeOperation(operation, options_.warmup_iterations, options_.iterations));
    if (options_.check && options_.iterations > 0) TUTTI_RETURN_IF_ERROR(Check(output, sample));
    return sample;
  }

 private:
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
