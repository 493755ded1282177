#include "tools/tutti_run/line_prefixer.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tutti::launch {

std::string LinePrefixer::Append(absl::string_view bytes) {
  absl::StrAppend(&held_, bytes);
  std::string lines;
  absl::string_view rest = held_;
  while (TakeLine(rest, lines)) {
  }
  held_.erase(0, held_.size() - rest.size());
  return lines;
}

bool LinePrefixer::TakeLine(absl::string_view& rest, std::string& lines) const {
  const size_t end = rest.substr(0, max_line_bytes_ + 1).find_first_of("\r\n");
  size_t size = max_line_bytes_;
  if (end == rest.npos) {
    if (rest.size() <= max_line_bytes_) return false;
  } else {
    if (rest[end] == '\r' && end + 1 == rest.size()) return false;  // the next byte decides
    size = end + (absl::StartsWith(rest.substr(end), "\r\n") ? 2 : 1);
  }
  absl::StrAppend(&lines, prefix_, rest.substr(0, size), end == rest.npos ? "\n" : "");
  rest.remove_prefix(size);
  return true;
}

std::string LinePrefixer::Finish() {
  if (held_.empty()) return "";
  std::string line = absl::StrCat(prefix_, held_, absl::EndsWith(held_, "\r") ? "" : "\n");
  held_.clear();
  return line;
}

}  // namespace tutti::launch
