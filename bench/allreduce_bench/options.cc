#include "bench/allreduce_bench/options.h"

#include <cmath>
#include <map>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "bench/program/program.h"
#include "src/base/status_macros.h"

namespace tutti {
namespace {

constexpr char kCollectives[] =
    "all_reduce, reduce_scatter, all_gather, broadcast, reduce, gather, scatter, all_to_all";

// nccl-tests' names of our types and operators.
const std::map<std::string, DataType>& TypeNames() {
  static const auto& names = *new std::map<std::string, DataType>{
      {"int8", DataType::kInt8},     {"uint8", DataType::kUInt8},    {"int16", DataType::kInt16},
      {"uint16", DataType::kUInt16}, {"int32", DataType::kInt32},    {"uint32", DataType::kUInt32},
      {"int64", DataType::kInt64},   {"uint64", DataType::kUInt64},  {"half", DataType::kFloat16},
      {"float", DataType::kFloat32}, {"double", DataType::kFloat64}, {"bfloat16", DataType::kBFloat16},
  };
  return names;
}

const std::map<std::string, ReduceOp>& OpNames() {
  static const auto& names = *new std::map<std::string, ReduceOp>{
      {"sum", ReduceOp::kSum}, {"prod", ReduceOp::kProduct}, {"min", ReduceOp::kMin},
      {"max", ReduceOp::kMax}, {"avg", ReduceOp::kAverage},
  };
  return names;
}

// One name, or all of them.
template <typename Value>
absl::StatusOr<std::vector<Value>> Choose(absl::string_view flag, const std::string& text,
                                          const std::map<std::string, Value>& names) {
  std::vector<Value> values;
  std::string known;
  for (const auto& [name, value] : names) {
    if (text == name || text == "all") values.push_back(value);
    absl::StrAppend(&known, " ", name);
  }
  if (values.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(flag, " \"", text, "\": expected all or one of", known));
  }
  return values;
}

absl::Status CheckOptions(const BenchOptions& options) {
  if (options.min_bytes > options.max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("-b ", options.min_bytes, " is more than -e ", options.max_bytes, ": nothing to measure"));
  }
  if (options.step_factor != 0 && !(options.step_factor > 1)) {
    return absl::InvalidArgumentError(absl::StrCat("-f ", options.step_factor, ": a factor must be more than 1"));
  }
  if (options.step_factor == 0 && options.step_bytes == 0 && options.min_bytes != options.max_bytes) {
    return absl::InvalidArgumentError("-i 0: a step must be at least 1 byte");
  }
  if (options.iterations < 0 || options.warmup_iterations < 0) {
    return absl::InvalidArgumentError("-n and -w must not be negative");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<uint64_t> ParseBytes(absl::string_view text) {
  absl::string_view digits = text;
  while (!digits.empty() && !absl::ascii_isdigit(static_cast<unsigned char>(digits.back()))) digits.remove_suffix(1);
  const std::string unit = absl::AsciiStrToLower(text.substr(digits.size()));
  double value = 0;
  double scale = 0;
  if (unit.empty()) scale = 1;
  if (unit == "k" || unit == "kib") scale = 1 << 10;
  if (unit == "m" || unit == "mib") scale = 1 << 20;
  if (unit == "g" || unit == "gib") scale = 1 << 30;
  const bool number = !digits.empty() && absl::ascii_isdigit(static_cast<unsigned char>(digits.front())) &&
                      absl::SimpleAtod(digits, &value) && std::isfinite(value);
  if (!number || scale == 0 || value * scale > 1e15) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is no size: expected a number, with K, M or G for binary multiples"));
  }
  return static_cast<uint64_t>(value * scale);
}

absl::StatusOr<std::optional<BenchOptions>> ParseBenchOptions(int argc, char** argv) {
  BenchOptions options;
  std::string min_bytes, max_bytes, step_bytes, collective = "all_reduce", op, type = "float";
  int check = 1;
  CLI::App app(
      "Times all-reduce, or another collective, among the ranks that tutti-run, mpirun, torchrun or srun starts.");
  app.add_option("-b,--minbytes", min_bytes, "smallest message (32M); K, M and G are binary multiples");
  app.add_option("-e,--maxbytes", max_bytes, "largest message (that of -b)");
  app.add_option("-i,--stepbytes", step_bytes, "added from one message to the next (1M)");
  app.add_option("-f,--stepfactor", options.step_factor, "multiplied instead");
  app.add_option("-n,--iters", options.iterations, "timed iterations of each message (20)");
  app.add_option("-w,--warmup_iters", options.warmup_iterations, "iterations before them (5)");
  app.add_option("-c,--check", check, "1: compare every element with the right value (1)");
  app.add_option("-C,--collective", collective, absl::StrCat("(all_reduce) ", kCollectives));
  app.add_option("-o,--op", op, "sum, prod, min, max, avg or all (sum)");
  app.add_option("-d,--datatype", type, "float, half, bfloat16, double, int8 ... uint64 or all (float)");
  app.add_option("-J,--output_file", options.json_path, "also write the results as JSON");
  app.add_flag("-R,--library_buffers", options.library_buffers, "memory from ProcessGroup::Allocate");
  app.add_flag("--corrupt_one_element", options.corrupt_one_element, "test of the check")->group("");
  app.add_option("--delay_rank", options.delay_rank, "test of the timing: this rank is late")->group("");
  TUTTI_ASSIGN_OR_RETURN(const bool run, ParseFlags(app, argc, argv));
  if (!run) return std::nullopt;
  const auto bytes = [](absl::string_view flag, const std::string& text, uint64_t& value) -> absl::Status {
    if (text.empty()) return absl::OkStatus();
    const absl::StatusOr<uint64_t> parsed = ParseBytes(text);
    if (!parsed.ok()) return absl::InvalidArgumentError(absl::StrCat(flag, " ", parsed.status().message()));
    value = *parsed;
    return absl::OkStatus();
  };
  absl::Status status = bytes("-b", min_bytes, options.min_bytes);
  options.max_bytes = options.min_bytes;
  if (status.ok()) status = bytes("-e", max_bytes, options.max_bytes);
  if (status.ok()) status = bytes("-i", step_bytes, options.step_bytes);
  if (status.ok()) status = CheckOptions(options);
  if (!status.ok()) return status;
  options.check = check != 0;
  const auto chosen = BenchCollectiveNames().find(collective);
  if (chosen == BenchCollectiveNames().end()) {
    return absl::InvalidArgumentError(absl::StrCat("-C \"", collective, "\": expected one of ", kCollectives));
  }
  options.collective = chosen->second;
  if (!op.empty() && !Traits(options.collective).reduces) {
    return absl::InvalidArgumentError(absl::StrCat("-o ", op, ": ", collective, " reduces nothing"));
  }
  absl::StatusOr<std::vector<ReduceOp>> ops = Choose("-o", op.empty() ? "sum" : op, OpNames());
  if (!ops.ok()) return ops.status();
  absl::StatusOr<std::vector<DataType>> types = Choose("-d", type, TypeNames());
  if (!types.ok()) return types.status();
  options.ops = *std::move(ops);
  options.types = *std::move(types);
  return options;
}

std::vector<uint64_t> MessageSizes(const BenchOptions& options) {
  std::vector<uint64_t> sizes;
  uint64_t bytes = options.min_bytes;
  while (bytes <= options.max_bytes) {
    sizes.push_back(bytes);
    const uint64_t next = options.step_factor > 1
                              ? static_cast<uint64_t>(std::ceil(static_cast<double>(bytes) * options.step_factor))
                              : bytes + options.step_bytes;
    bytes = std::max(next, bytes + 1);
    if (options.min_bytes == options.max_bytes) break;
  }
  return sizes;
}

}  // namespace tutti
