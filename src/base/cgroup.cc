#include "src/base/cgroup.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tutti {
namespace {

using ReadFile = absl::FunctionRef<std::optional<std::string>(const std::string& path)>;

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

double Quota(absl::string_view quota_text, absl::string_view period_text) {
  int64_t quota = 0, period = 0;
  // "max" (version 2) and -1 (version 1) mean no limit.
  if (!absl::SimpleAtoi(quota_text, &quota) || !absl::SimpleAtoi(period_text, &period)) return kUnlimited;
  if (quota <= 0 || period <= 0) return kUnlimited;
  return static_cast<double>(quota) / static_cast<double>(period);
}

double QuotaV2(const std::string& directory, ReadFile read) {
  std::optional<std::string> text = read(absl::StrCat(directory, "/cpu.max"));
  if (!text) return kUnlimited;
  std::vector<absl::string_view> fields = absl::StrSplit(*text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  return fields.size() == 2 ? Quota(fields[0], fields[1]) : kUnlimited;
}

double QuotaV1(const std::string& directory, ReadFile read) {
  std::optional<std::string> quota = read(absl::StrCat(directory, "/cpu.cfs_quota_us"));
  std::optional<std::string> period = read(absl::StrCat(directory, "/cpu.cfs_period_us"));
  return quota && period ? Quota(*quota, *period) : kUnlimited;
}

double LeastUpToRoot(absl::string_view mount, absl::string_view group, double (*quota)(const std::string&, ReadFile),
                     ReadFile read) {
  double least = kUnlimited;
  absl::string_view path = absl::StripSuffix(group, "/");
  while (true) {
    least = std::min(least, quota(absl::StrCat(mount, path), read));
    size_t slash = path.rfind('/');
    if (slash == absl::string_view::npos) return least;
    path = path.substr(0, slash);
  }
}

}  // namespace

std::optional<int> CgroupCpuLimit(absl::string_view self_cgroup, ReadFile read) {
  double least = kUnlimited;
  for (absl::string_view line : absl::StrSplit(self_cgroup, '\n', absl::SkipEmpty())) {
    // hierarchy:controllers:path, and the path may hold colons.
    std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    if (fields[0] == "0" && fields[1].empty()) {
      for (absl::string_view mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
        least = std::min(least, LeastUpToRoot(mount, fields[2], QuotaV2, read));
      }
      continue;
    }
    std::vector<absl::string_view> controllers = absl::StrSplit(fields[1], ',');
    if (std::find(controllers.begin(), controllers.end(), "cpu") == controllers.end()) continue;
    for (absl::string_view mount : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"}) {
      least = std::min(least, LeastUpToRoot(mount, fields[2], QuotaV1, read));
    }
  }
  if (least >= std::numeric_limits<int>::max()) return std::nullopt;
  return std::max(1, static_cast<int>(std::ceil(least)));
}

}  // namespace tutti
