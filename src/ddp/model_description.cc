#include "src/ddp/model_description.h"

#include <algorithm>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "src/ddp/parameters.h"

namespace tutti {
namespace {

using Facts = std::vector<std::pair<std::string, std::string>>;

constexpr absl::string_view kUnusable = "unusable";
constexpr absl::string_view kOption = "option";
constexpr absl::string_view kParameter = "parameter";

void AppendLine(std::string* text, absl::string_view kind, absl::string_view name, absl::string_view value) {
  absl::StrAppend(text, kind, "\t", absl::CHexEscape(name), "\t", absl::CHexEscape(value), "\n");
}

// Names as Encode leaves them, so that both sides of a comparison look alike.
std::string Unescape(absl::string_view text) {
  std::string plain;
  return absl::CUnescape(text, &plain) ? plain : std::string(text);
}

absl::Status DecodeFailure(absl::string_view code, std::string message) {
  int value = 0;
  const bool known = absl::SimpleAtoi(code, &value) && value > 0 && value <= 16;
  return absl::Status(known ? static_cast<absl::StatusCode>(value) : absl::StatusCode::kUnknown, message);
}

std::string NameRanks(absl::Span<const int> ranks) {
  constexpr size_t kShown = 8;
  if (ranks.size() == 1) return absl::StrCat("rank ", ranks[0]);
  if (ranks.size() > kShown) {
    return absl::StrCat("ranks ", absl::StrJoin(ranks.first(kShown), ", "), " and ", ranks.size() - kShown, " more");
  }
  return absl::StrCat("ranks ", absl::StrJoin(ranks.first(ranks.size() - 1), ", "), " and ", ranks.back());
}

absl::flat_hash_set<absl::string_view> NamesOf(const Facts& facts) {
  absl::flat_hash_set<absl::string_view> names;
  for (const auto& fact : facts) names.insert(fact.first);
  return names;
}

// The first of `facts` whose name `others` lack.
std::optional<size_t> FirstAbsent(const Facts& facts, const Facts& others) {
  const absl::flat_hash_set<absl::string_view> names = NamesOf(others);
  for (size_t i = 0; i < facts.size(); ++i) {
    if (!names.contains(facts[i].first)) return i;
  }
  return std::nullopt;
}

std::string DescribeCounts(const Facts& mine, const Facts& theirs, absl::string_view they_have) {
  std::string text = absl::StrCat(mine.size(), " parameters, ", they_have, " ", theirs.size());
  if (const auto lacking = FirstAbsent(theirs, mine)) {
    absl::StrAppend(&text, "; it lacks ", ParameterLabel(*lacking, theirs[*lacking].first), " ",
                    theirs[*lacking].second);
  } else if (const auto extra = FirstAbsent(mine, theirs)) {
    absl::StrAppend(&text, "; only it has ", ParameterLabel(*extra, mine[*extra].first), " ", mine[*extra].second);
  }
  return text;
}

// What makes `mine` another model than `theirs`: empty if at most names differ. A name that the other side has in
// another place is more than another name: the gradients of two parameters would be mixed up.
std::string FirstDifference(const ModelDescription& mine, const ModelDescription& theirs, absl::string_view they_have) {
  for (size_t i = 0; i < std::min(mine.options.size(), theirs.options.size()); ++i) {
    const auto& [name, value] = mine.options[i];
    if (value != theirs.options[i].second) {
      return absl::StrCat("option ", name, " is ", value, ", ", they_have, " ", theirs.options[i].second);
    }
  }
  if (mine.parameters.size() != theirs.parameters.size()) {
    return DescribeCounts(mine.parameters, theirs.parameters, they_have);
  }
  const absl::flat_hash_set<absl::string_view> their_names = NamesOf(theirs.parameters);
  for (size_t i = 0; i < mine.parameters.size(); ++i) {
    const auto& [name, shape] = mine.parameters[i];
    const auto& [their_name, their_shape] = theirs.parameters[i];
    const bool moved = name != their_name && their_names.contains(name);
    if (shape == their_shape && !moved) continue;
    if (name == their_name) {
      return absl::StrCat(ParameterLabel(i, name), " is ", shape, ", ", they_have, " ", their_shape);
    }
    return absl::StrCat(ParameterLabel(i, name), " is ", shape, ", ", they_have, " \"", absl::CHexEscape(their_name),
                        "\" ", their_shape, moved ? " there: registered in another order" : "");
  }
  return "";
}

std::string FirstOtherName(const ModelDescription& mine, const ModelDescription& theirs, absl::string_view they_have) {
  for (size_t i = 0; i < mine.parameters.size(); ++i) {
    if (mine.parameters[i].first == theirs.parameters[i].first) continue;
    return absl::StrCat(ParameterLabel(i, mine.parameters[i].first), ", ", they_have, " \"",
                        absl::CHexEscape(theirs.parameters[i].first), "\"");
  }
  return "";
}

absl::Status FailuresOf(absl::Span<const AgreeingRanks> groups) {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::vector<std::string> failures;
  for (const AgreeingRanks& group : groups) {
    if (group.description.usable.ok()) continue;
    if (failures.empty()) code = group.description.usable.code();
    failures.push_back(absl::StrCat(NameRanks(group.ranks), ": ", group.description.usable.message()));
  }
  return absl::Status(code, absl::StrJoin(failures, "; "));
}

}  // namespace

std::string Encode(const ModelDescription& description) {
  std::string text;
  if (!description.usable.ok()) {
    AppendLine(&text, kUnusable, absl::StrCat(static_cast<int>(description.usable.code())),
               description.usable.message());
  }
  for (const auto& [name, value] : description.options) AppendLine(&text, kOption, name, value);
  for (const auto& [name, shape] : description.parameters) AppendLine(&text, kParameter, name, shape);
  return text;
}

ModelDescription Decode(absl::string_view text) {
  ModelDescription description;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, '\t');
    if (fields.size() != 3) continue;
    std::string value = Unescape(fields[2]);
    if (fields[0] == kUnusable) {
      description.usable = DecodeFailure(fields[1], std::move(value));
    } else if (fields[0] == kOption) {
      description.options.emplace_back(Unescape(fields[1]), std::move(value));
    } else if (fields[0] == kParameter) {
      description.parameters.emplace_back(Unescape(fields[1]), std::move(value));
    }
  }
  return description;
}

Comparison Compare(absl::Span<const AgreeingRanks> groups, int world_size) {
  if (absl::Status failed = FailuresOf(groups); !failed.ok()) return {.status = std::move(failed), .warning = ""};
  const auto reference = std::max_element(groups.begin(), groups.end(),
                                          [](const auto& a, const auto& b) { return a.ranks.size() < b.ranks.size(); });
  const bool is_majority = reference->ranks.size() * 2 > static_cast<size_t>(world_size);
  const std::string they_have =
      is_majority ? "the others have"
                  : absl::StrCat(NameRanks(reference->ranks), reference->ranks.size() == 1 ? " has" : " have");
  std::vector<std::string> differences, names;
  for (auto group = groups.begin(); group != groups.end(); ++group) {
    if (group == reference) continue;
    const std::string who = absl::StrCat(NameRanks(group->ranks), ": ");
    std::string difference = FirstDifference(group->description, reference->description, they_have);
    if (!difference.empty()) {
      differences.push_back(absl::StrCat(who, difference));
    } else if (difference = FirstOtherName(group->description, reference->description, they_have);
               !difference.empty()) {
      names.push_back(absl::StrCat(who, difference));
    }
  }
  if (!differences.empty()) {
    return {.status = absl::InvalidArgumentError(absl::StrJoin(differences, "; ")), .warning = ""};
  }
  return {.status = absl::OkStatus(), .warning = absl::StrJoin(names, "; ")};
}

}  // namespace tutti
