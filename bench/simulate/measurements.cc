#include "bench/simulate/measurements.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tutti {
namespace {

using Cells = std::vector<absl::string_view>;

Cells CellsOf(absl::string_view line) { return absl::StrSplit(absl::StripAsciiWhitespace(line), ','); }

absl::StatusOr<std::map<absl::string_view, size_t>> ReadHeader(absl::string_view line) {
  const Cells cells = CellsOf(line);
  std::map<absl::string_view, size_t> columns;
  for (size_t i = 0; i < cells.size(); ++i) columns[cells[i]] = i;
  for (const char* name : {"library", "transport", "buffers", "operation", "ranks", "bytes", "median_us"}) {
    if (columns.count(name) == 0) {
      return absl::InvalidArgumentError(absl::StrCat("line 1: there is no column \"", name, "\""));
    }
  }
  return columns;
}

}  // namespace

absl::StatusOr<std::vector<MeasuredAllReduce>> ParseMeasurements(absl::string_view csv, absl::string_view buffers) {
  const std::vector<absl::string_view> lines = absl::StrSplit(csv, '\n');
  const absl::StatusOr<std::map<absl::string_view, size_t>> columns = ReadHeader(lines[0]);
  if (!columns.ok()) return columns.status();
  std::vector<MeasuredAllReduce> rows;
  for (size_t i = 1; i < lines.size(); ++i) {
    if (absl::StripAsciiWhitespace(lines[i]).empty()) continue;
    const Cells cells = CellsOf(lines[i]);
    if (cells.size() != columns->size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", i + 1, ": ", cells.size(), " columns instead of ", columns->size()));
    }
    const auto cell = [&](absl::string_view name) { return cells[columns->at(name)]; };
    if (cell("library") != "tutti" || cell("transport") != "tcp" || cell("operation") != "all_reduce") continue;
    if (cell("buffers") != buffers) continue;
    MeasuredAllReduce row = {.buffers = std::string(buffers)};
    if (!absl::SimpleAtoi(cell("ranks"), &row.ranks) || !absl::SimpleAtoi(cell("bytes"), &row.bytes) ||
        !absl::SimpleAtod(cell("median_us"), &row.median_us) || row.ranks < 2 || row.ranks > kSizeMax ||
        !(row.median_us > 0) || !std::isfinite(row.median_us)) {
      return absl::InvalidArgumentError(absl::StrCat("line ", i + 1, ": not a measurement: \"", lines[i], "\""));
    }
    rows.push_back(row);
  }
  if (rows.empty()) {
    return absl::NotFoundError(
        absl::StrCat("there is no row of tutti, tcp, all_reduce with buffers \"", buffers, "\""));
  }
  std::sort(rows.begin(), rows.end(), [](const MeasuredAllReduce& a, const MeasuredAllReduce& b) {
    return std::tie(a.ranks, a.bytes) < std::tie(b.ranks, b.bytes);
  });
  return rows;
}

Plan PlanOf(const MeasuredAllReduce& measured) {
  Plan plan = {.collective = Collective::kAllReduce, .size = measured.ranks, .bytes = measured.bytes};
  plan.algorithm = ChosenAlgorithm(plan);
  return plan;
}

}  // namespace tutti
