#include "tools/tutti_run/line_prefixer.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tutti::launch {
namespace {

// Size of the first line of `text`, with its ending; 0 if that is not known yet.
size_t FirstLine(absl::string_view text) {
  const size_t end = text.find_first_of("\r\n");
  if (end == text.npos) return 0;
  if (text[end] == '\n') return end + 1;
  if (end + 1 == text.size()) return 0;  // the next byte decides
  return text[end + 1] == '\n' ? end + 2 : end + 1;
}

}  // namespace

std::string LinePrefixer::Append(absl::string_view bytes) {
  absl::StrAppend(&held_, bytes);
  std::string lines;
  absl::string_view rest = held_;
  while (true) {
    const absl::string_view window = rest.substr(0, max_line_bytes_ + 2);  // with room for the ending
    const size_t size = FirstLine(window);
    if (size == 0 && window.size() < max_line_bytes_ + 2) break;
    const absl::string_view line = rest.substr(0, size == 0 ? max_line_bytes_ : size);
    absl::StrAppend(&lines, prefix_, line, size == 0 ? "\n" : "");
    rest.remove_prefix(line.size());
  }
  held_.erase(0, held_.size() - rest.size());
  return lines;
}

std::string LinePrefixer::Finish() {
  if (held_.empty()) return "";
  std::string line = absl::StrCat(prefix_, held_, absl::EndsWith(held_, "\r") ? "" : "\n");
  held_.clear();
  return line;
}

}  // namespace tutti::launch
