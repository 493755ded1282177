#include "src/base/cpu_set.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tutti {
namespace {

bool ParseCpu(absl::string_view text, size_t& cpu) {
  return std::all_of(text.begin(), text.end(), absl::ascii_isdigit) && absl::SimpleAtoi(text, &cpu) && cpu < kCpusMax;
}

}  // namespace

std::string CpuList(const CpuSet& cpus, size_t bytes_max) {
  std::string list;
  for (size_t first = 0; first < kCpusMax; ++first) {
    if (!cpus[first]) continue;
    size_t last = first;
    while (last + 1 < kCpusMax && cpus[last + 1]) ++last;
    std::string range = absl::StrCat(list.empty() ? "" : ",", first);
    if (last > first) absl::StrAppend(&range, "-", last);
    if (list.size() + range.size() > bytes_max) break;
    list += range;
    first = last;
  }
  return list;
}

absl::StatusOr<CpuSet> ParseCpuList(absl::string_view text) {
  CpuSet cpus;
  if (text.empty()) return cpus;
  for (const absl::string_view range : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> ends = absl::StrSplit(range, absl::MaxSplits('-', 1));
    size_t first = 0, last = 0;
    if (!ParseCpu(ends.front(), first) || !ParseCpu(ends.back(), last) || first > last) {
      return absl::InvalidArgumentError(absl::StrCat("\"", absl::CEscape(range), "\" is no range of processors below ",
                                                     kCpusMax, ", such as 4 or 0-3"));
    }
    for (size_t cpu = first; cpu <= last; ++cpu) cpus.set(cpu);
  }
  return cpus;
}

}  // namespace tutti
