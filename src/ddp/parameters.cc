#include "src/ddp/parameters.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/status_macros.h"

namespace tutti {
namespace {

// All gradients of a model together stay below this, so that no sum of sizes can overflow.
constexpr uint64_t kMaxModelBytes = uint64_t{1} << 62;

absl::Status Refuse(size_t index, const Parameter& parameter, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(ParameterLabel(index, parameter.name), " ", why));
}

absl::StatusOr<size_t> ElementsOf(size_t index, const Parameter& parameter) {
  uint64_t count = 1;
  for (const int64_t extent : parameter.shape) {
    if (extent < 0)
      return Refuse(index, parameter, absl::StrCat("has a negative dimension: ", TypeAndShape(parameter)));
  }
  if (std::find(parameter.shape.begin(), parameter.shape.end(), 0) != parameter.shape.end()) return 0;
  for (const int64_t extent : parameter.shape) {
    if (static_cast<uint64_t>(extent) > kMaxModelBytes / ByteSize(parameter.type) / count) {
      return Refuse(index, parameter, absl::StrCat("is too large: ", TypeAndShape(parameter)));
    }
    count *= static_cast<uint64_t>(extent);
  }
  return count;
}

absl::Status CheckDense(size_t index, const Parameter& parameter) {
  if (parameter.strides.empty()) return absl::OkStatus();
  absl::Status dense = Tensor::FromStrided(nullptr, parameter.shape, parameter.strides, parameter.type).status();
  if (dense.ok()) return dense;
  return Refuse(index, parameter, absl::StrCat("must be dense: ", dense.message()));
}

absl::Status CheckNames(absl::Span<const Parameter> parameters) {
  absl::flat_hash_map<absl::string_view, size_t> seen;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].name.empty()) return Refuse(i, parameters[i], "has no name; errors and reports need one");
    const auto [first, inserted] = seen.emplace(parameters[i].name, i);
    if (!inserted) {
      return Refuse(i, parameters[i], absl::StrCat("has the name of parameter ", first->second, "; names are unique"));
    }
  }
  return absl::OkStatus();
}

// Two gradients of one tensor would be reduced apart and applied twice.
absl::Status CheckStorage(absl::Span<const Parameter> parameters, absl::Span<const size_t> counts) {
  std::vector<size_t> order;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].storage != nullptr && counts[i] > 0) order.push_back(i);
  }
  auto begin = [&](size_t i) { return reinterpret_cast<uintptr_t>(parameters[i].storage); };
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return begin(a) != begin(b) ? begin(a) < begin(b) : a < b; });
  for (size_t k = 1; k < order.size(); ++k) {
    const auto [first, second] = std::minmax(order[k - 1], order[k]);
    const uintptr_t bytes = counts[order[k - 1]] * ByteSize(parameters[order[k - 1]].type);
    if (begin(order[k]) - begin(order[k - 1]) >= bytes) continue;
    return Refuse(second, parameters[second],
                  absl::StrCat("shares storage with ", ParameterLabel(first, parameters[first].name),
                               " (tied weights?); register one of them and add both gradients to its view"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<size_t>> CountElements(absl::Span<const Parameter> parameters) {
  if (parameters.size() > static_cast<size_t>(std::numeric_limits<int>::max())) {
    return absl::InvalidArgumentError(absl::StrCat(parameters.size(), " parameters are too many"));
  }
  TUTTI_RETURN_IF_ERROR(CheckNames(parameters));
  std::vector<size_t> counts;
  counts.reserve(parameters.size());
  uint64_t total_bytes = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!IsFloatingPoint(parameters[i].type)) {
      return Refuse(i, parameters[i], absl::StrCat("is ", Name(parameters[i].type), "; gradients are floating point"));
    }
    TUTTI_ASSIGN_OR_RETURN(const size_t count, ElementsOf(i, parameters[i]));
    TUTTI_RETURN_IF_ERROR(CheckDense(i, parameters[i]));
    total_bytes += count * ByteSize(parameters[i].type);
    if (total_bytes > kMaxModelBytes) return Refuse(i, parameters[i], "makes the model too large");
    counts.push_back(count);
  }
  TUTTI_RETURN_IF_ERROR(CheckStorage(parameters, counts));
  return counts;
}

std::string ParameterLabel(size_t index, absl::string_view name) {
  return absl::StrCat("parameter ", index, " \"", absl::CHexEscape(name), "\"");
}

std::string TypeAndShape(const Parameter& parameter) {
  return absl::StrCat(Name(parameter.type), " [", absl::StrJoin(parameter.shape, ", "), "]");
}

}  // namespace tutti
