#include "bench/allreduce_bench/collective.h"

namespace tutti {
namespace {

// Block r is what rank r has from element `first` of its input on.
WrongElements CompareBlocks(Tensor output, ReduceOp op, int size, uint64_t first) {
  const size_t count = output.count() / static_cast<size_t>(size);
  WrongElements wrong;
  for (int rank = 0; rank < size; ++rank) {
    const size_t begin = static_cast<size_t>(rank) * count;
    const Tensor block(static_cast<char*>(output.data()) + begin * ByteSize(output.type()), count, output.type());
    const WrongElements in_block = CompareCopied(block, op, rank, first);
    if (wrong.count == 0) wrong.first = begin + in_block.first;
    wrong.count += in_block.count;
  }
  return wrong;
}

}  // namespace

const std::map<std::string, BenchCollective>& BenchCollectiveNames() {
  static const auto& names = *new std::map<std::string, BenchCollective>{
      {"all_reduce", BenchCollective::kAllReduce}, {"reduce_scatter", BenchCollective::kReduceScatter},
      {"all_gather", BenchCollective::kAllGather}, {"broadcast", BenchCollective::kBroadcast},
      {"reduce", BenchCollective::kReduce},        {"gather", BenchCollective::kGather},
      {"scatter", BenchCollective::kScatter},      {"all_to_all", BenchCollective::kAllToAll},
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
    case BenchCollective::kReduce:
      return {.reduces = true, .rooted = true, .to_root = true};
    case BenchCollective::kGather:
      return {.rooted = true, .to_root = true, .input_is_part = true};
    case BenchCollective::kScatter:
      return {.rooted = true, .output_is_part = true};
    case BenchCollective::kAllToAll:
      return {.in_place = false};
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
    case BenchCollective::kGather:
    case BenchCollective::kScatter:
    case BenchCollective::kAllToAll:
      return others;
    case BenchCollective::kBroadcast:
    case BenchCollective::kReduce:
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
    case BenchCollective::kReduce:
      return group.Reduce(input, output, kRoot, {.op = op});
    case BenchCollective::kGather:
      return group.Gather(input, output, kRoot);
    case BenchCollective::kScatter:
      return group.Scatter(input, output, kRoot);
    case BenchCollective::kAllToAll:
      return group.AllToAll(input, output);
    case BenchCollective::kBroadcast:
      break;
  }
  return group.Broadcast(group.rank() == kRoot ? input : output, kRoot);
}

WrongElements CompareOutput(const ProcessGroup& group, BenchCollective collective, Tensor output, ReduceOp op) {
  const int size = group.size();
  const bool is_root = group.rank() == kRoot;
  const auto rank = static_cast<uint64_t>(group.rank());
  switch (collective) {
    case BenchCollective::kAllReduce:
      return CompareReduced(output, op, size, /*first=*/0);
    case BenchCollective::kReduceScatter:
      return CompareReduced(output, op, size, rank * output.count());
    case BenchCollective::kAllGather:
      return CompareBlocks(output, op, size, /*first=*/0);
    case BenchCollective::kBroadcast:
      return is_root ? WrongElements() : CompareCopied(output, op, kRoot, /*first=*/0);
    case BenchCollective::kReduce:
      return is_root ? CompareReduced(output, op, size, /*first=*/0) : WrongElements();
    case BenchCollective::kGather:
      return is_root ? CompareBlocks(output, op, size, /*first=*/0) : WrongElements();
    case BenchCollective::kScatter:
      return CompareCopied(output, op, kRoot, rank * output.count());
    case BenchCollective::kAllToAll:
      return CompareBlocks(output, op, size, rank * (output.count() / static_cast<uint64_t>(size)));
  }
  return {};
}

}  // namespace tutti
