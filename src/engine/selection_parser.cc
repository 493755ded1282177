#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "src/base/status_macros.h"
#include "src/engine/selection.h"
#include "src/schedule/builders.h"

namespace tutti {
namespace {

constexpr int kCollectives = static_cast<int>(Collective::kAllToAll) + 1;
constexpr size_t kRulesMax = 1000;

std::optional<Collective> CollectiveNamed(absl::string_view name) {
  for (int code = 0; code < kCollectives; ++code) {
    if (Name(static_cast<Collective>(code)) == name) return static_cast<Collective>(code);
  }
  return std::nullopt;
}

std::optional<uint64_t> ParseSize(absl::string_view text) {
  int shift = 0;
  if (absl::ConsumeSuffix(&text, "K"))
    shift = 10;
  else if (absl::ConsumeSuffix(&text, "M"))
    shift = 20;
  else if (absl::ConsumeSuffix(&text, "G"))
    shift = 30;
  uint64_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value > UINT64_MAX >> shift) return std::nullopt;
  return value << shift;
}

absl::StatusOr<SelectionRule> ParseRule(absl::string_view text) {
  const auto error = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("selection rule \"", text, "\": ", what));
  };
  const std::vector<absl::string_view> sides = absl::StrSplit(text, absl::MaxSplits(" = ", 1));
  if (sides.size() != 2) return error("expected \"COLLECTIVE [ranks<=N] [bytes<=SIZE] = ALGORITHM [chunk=SIZE]\"");
  const std::vector<absl::string_view> condition = absl::StrSplit(sides[0], ' ', absl::SkipEmpty());
  const std::vector<absl::string_view> choice = absl::StrSplit(sides[1], ' ', absl::SkipEmpty());
  if (condition.empty() || choice.empty()) return error("names no collective or no algorithm");

  SelectionRule rule;
  rule.reason = "TUTTI_SELECTION";
  const std::optional<Collective> collective = CollectiveNamed(condition[0]);
  if (!collective) return error(absl::StrCat("there is no collective '", condition[0], "'"));
  rule.collective = *collective;
  for (size_t i = 1; i < condition.size(); ++i) {
    absl::string_view limit = condition[i];
    const bool ranks = absl::ConsumePrefix(&limit, "ranks<=");
    if (!ranks && !absl::ConsumePrefix(&limit, "bytes<=")) {
      return error(absl::StrCat("'", condition[i], "' is neither ranks<=N nor bytes<=SIZE"));
    }
    const std::optional<uint64_t> value = ParseSize(limit);
    if (!value || (ranks && (*value < 1 || *value > kSizeMax))) return error(absl::StrCat("'", limit, "' is no limit"));
    if (ranks) {
      rule.ranks_max = static_cast<int>(*value);
    } else {
      rule.bytes_max = *value;
    }
  }

  const auto algorithms = AlgorithmsOf(rule.collective);
  const auto* algorithm =
      std::find_if(algorithms.begin(), algorithms.end(), [&](Algorithm each) { return Name(each) == choice[0]; });
  if (algorithm == algorithms.end()) {
    return error(absl::StrCat(
        "there is no ", Name(rule.collective), " by '", choice[0], "', only by ",
        absl::StrJoin(algorithms, ", ", [](std::string* out, Algorithm each) { absl::StrAppend(out, Name(each)); })));
  }
  rule.algorithm = *algorithm;
  if (choice.size() == 1) return rule;
  absl::string_view chunk = choice[1];
  if (absl::ConsumePrefix(&chunk, "chunk=") && choice.size() == 2) rule.chunk_bytes = ParseSize(chunk).value_or(0);
  if (rule.chunk_bytes < 1 || rule.chunk_bytes > uint64_t{1} << 30) {
    return error("after the algorithm only chunk=SIZE may follow, of 1 byte to 1G");
  }
  return rule;
}

}  // namespace

absl::StatusOr<SelectionTable> ParseSelectionTable(absl::string_view text) {
  std::vector<SelectionRule> rules;
  for (absl::string_view line : absl::StrSplit(text, absl::ByAnyChar(";\n"))) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty()) continue;
    if (rules.size() == kRulesMax) {
      return absl::InvalidArgumentError(absl::StrCat("more than ", kRulesMax, " selection rules"));
    }
    TUTTI_ASSIGN_OR_RETURN(SelectionRule rule, ParseRule(line));
    rules.push_back(std::move(rule));
  }
  SelectionTable table;
  table.Prefer(std::move(rules));
  return table;
}

}  // namespace tutti
