#include "bench/allreduce_bench/measure.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "bench/allreduce_bench/collective.h"
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

// One collective on one pair of tensors.
class Runner {
 public:
  Runner(ProcessGroup& group, const BenchOptions& options, ReduceOp op, Tensor input, Tensor output)
      : group_(group), options_(options), op_(op), input_(input), output_(output) {}

  // `pattern`: this rank's input.
  absl::StatusOr<Sample> Run(ConstTensor pattern) {
    const TimedOperation operation = {
        .fill = [&] { std::memcpy(input_.data(), pattern.data(), pattern.bytes()); },
        .run = [&] { return RunOnce(); },
        .read = [&] { ReadMemory(output_.data(), output_.bytes()); },
        .barrier = [&] { return group_.Barrier().Wait(); },
        .max_over_ranks =
            [&](absl::Span<double> times) { return group_.AllReduce(times, {.op = ReduceOp::kMax}).Wait(); },
    };
    Sample sample;
    TUTTI_ASSIGN_OR_RETURN(sample.times, TimeOperation(operation, options_.warmup_iterations, options_.iterations));
    if (options_.check && options_.iterations > 0) {
      // Once more: what an earlier iteration has left in the output must not pass for this one's result.
      std::memset(output_.data(), 0x5a, output_.bytes());
      operation.fill();
      TUTTI_RETURN_IF_ERROR(RunOnce());
      TUTTI_RETURN_IF_ERROR(Check(sample));
    }
    return sample;
  }

 private:
  absl::Status RunOnce() {
    if (group_.rank() == options_.delay_rank) {
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(options_.delay_milliseconds));
    }
    return Start(group_, options_.collective, input_, output_, op_).Wait();
  }

  absl::Status Check(Sample& sample) {
    const int corrupted_rank = Traits(options_.collective).to_root ? kRoot : group_.size() - 1;
    if (options_.corrupt_one_element && group_.rank() == corrupted_rank && output_.count() > 0) {
      CorruptElement(output_, output_.count() / 2);
    }
    const WrongElements wrong = CompareOutput(group_, options_.collective, output_, op_);
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
  const ReduceOp op_;
  const Tensor input_, output_;
};

}  // namespace

absl::StatusOr<Measurement> Measure(ProcessGroup& group, const BenchOptions& options, uint64_t bytes, DataType type,
                                    ReduceOp op) {
  const CollectiveTraits traits = Traits(options.collective);
  const auto size = static_cast<uint64_t>(group.size());
  const bool in_parts = traits.input_is_part || traits.output_is_part || !traits.in_place;
  const uint64_t part = bytes / ByteSize(type) / size;
  Measurement measurement;
  measurement.count = in_parts ? part * size : bytes / ByteSize(type);
  measurement.bytes = measurement.count * ByteSize(type);
  measurement.type = type;
  measurement.op = op;
  TUTTI_ASSIGN_OR_RETURN(Buffer pattern, AllocateBytes(group, false, measurement.bytes));
  TUTTI_ASSIGN_OR_RETURN(Buffer first, AllocateBytes(group, options.library_buffers, measurement.bytes));
  TUTTI_ASSIGN_OR_RETURN(Buffer second, AllocateBytes(group, options.library_buffers, measurement.bytes));
  const auto side = [&](const Buffer& buffer, bool is_part, uint64_t offset) {
    return is_part ? buffer.tensor(offset, part, type) : buffer.tensor(0, measurement.count, type);
  };
  const Tensor filled = side(pattern, traits.input_is_part, 0);
  FillElements(filled, op, group.rank());
  Runner out_of_place(group, options, op, side(first, traits.input_is_part, 0), side(second, traits.output_is_part, 0));
  TUTTI_ASSIGN_OR_RETURN(measurement.out_of_place, out_of_place.Run(filled));
  if (!traits.in_place) return measurement;
  const uint64_t own = static_cast<uint64_t>(group.rank()) * part * ByteSize(type);
  Runner in_place(group, options, op, side(first, traits.input_is_part, own), side(first, traits.output_is_part, own));
  TUTTI_ASSIGN_OR_RETURN(measurement.in_place, in_place.Run(filled));
  return measurement;
}

double AlgorithmBandwidth(uint64_t bytes, double microseconds) {
  return microseconds > 0 ? static_cast<double>(bytes) / microseconds / 1e3 : 0;
}

double BusBandwidth(BenchCollective collective, uint64_t bytes, double microseconds, int size) {
  return AlgorithmBandwidth(bytes, microseconds) * BusFactor(collective, size);
}

}  // namespace tutti
