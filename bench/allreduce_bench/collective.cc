#include "bench/allreduce_bench/collective.h"

namespace tutti {
namespace {

// The blocks of an all-gather: block r is rank r's input.
WrongElements CompareBlocks(Tensor output, ReduceOp op, int size) {
  const size_t count = output.count() / static_cast<size_t>(size);
  WrongElements wrong;
  for (int rank = 0; rank < size; ++rank) {
    const size_t first = static_cast<size_t>(rank) * count;
    const Tensor block(static_cast<char*>(output.data()) + first * ByteSize(output.type()), count, output.type());
    const WrongElements in_block = CompareCopied(block, op, rank);
    if (wrong.count == 0) wrong.first = first + in_block.first;
    wrong.count += in_block.count;
  }
  return wrong;
}

}  // namespace

const std::map<std::string, BenchCollective>& BenchCollectiveNames() {
  static const auto& names = *new std::map<std::string, BenchCollective>{
      {"all_reduce", BenchCollective::kAllReduce},
      {"reduce_scatter", BenchCollective::kReduceScatter},
      {"all_gather", BenchCollective::kAllGather},
      {"broadcast", BenchCollective::kBroadcast},
  };
  return names;
}

absl::string_view Name(BenchCollective collective) {
  for (const auto& [name, value] : BenchCollectiveNames()) {
    if (value == collective) return name;
  }
  return "?";
}

CollectiveTraits Traits(BenchCollective collective) {
  switch (collective) {
    case BenchCollective::kAllReduce:
      return {.reduces = true};
    case BenchCollective::kReduceScatter:
      return {.reduces = true, .output_is_part = true};
    case BenchCollective::kAllGather:
      return {.input_is_part = true};
    case BenchCollective::kBroadcast:
      return {.rooted = true};
  }
  return {};
}

double BusFactor(BenchCollective collective, int size) {
  const double others = static_cast<double>(size - 1) / size;
  switch (collective) {
    case BenchCollective::kAllReduce:
      return 2 * others;
    case BenchCollective::kReduceScatter:
    case BenchCollective::kAllGather:
      return others;
    case BenchCollective::kBroadcast:
      return 1;
  }
  return 0;
}

Work Start(ProcessGroup& group, BenchCollective collective, Tensor input, Tensor output, ReduceOp op) {
  switch (collective) {
    case BenchCollective::kAllReduce:
      return group.AllReduce(input, output, {.op = op});
    case BenchCollective::kReduceScatter:
      return group.ReduceScatter(input, output, {.op = op});
    case BenchCollective::kAllGather:
      return group.AllGather(input, output);
    case BenchCollective::kBroadcast:
      break;
  }
  return group.Broadcast(group.rank() == kRoot ? input : output, kRoot);
}

WrongElements CompareOutput(const ProcessGroup& group, BenchCollective collective, Tensor output, ReduceOp op) {
  switch (collective) {
    case BenchCollective::kAllReduce:
      return CompareReduced(output, op, group.size(), /*first=*/0);
    case BenchCollective::kReduceScatter:
      return CompareReduced(output, op, group.size(), static_cast<uint64_t>(group.rank()) * output.count());
    case BenchCollective::kAllGather:
      return CompareBlocks(output, op, group.size());
    case BenchCollective::kBroadcast:
      return group.rank() == kRoot ? WrongElements() : CompareCopied(output, op, kRoot);
  }
  return {};
}

}  // namespace tutti
