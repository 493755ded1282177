// LinePrefixer: cuts a stream of bytes into lines, each with a prefix.
//
// Pure; not synchronised.

#ifndef TUTTI_TOOLS_TUTTI_RUN_LINE_PREFIXER_H_
#define TUTTI_TOOLS_TUTTI_RUN_LINE_PREFIXER_H_

#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace tutti::launch {

inline constexpr size_t kMaxLineBytes = size_t{64} << 10;

// A line ends with "\n", "\r\n" or "\r" (a progress display that is about to overwrite itself), and keeps its ending. A
// line without an end is held back, so that nothing of another rank can land in its middle; one that grows beyond
// `max_line_bytes` is cut, with "\n".
class LinePrefixer {
 public:
  explicit LinePrefixer(std::string prefix, size_t max_line_bytes = kMaxLineBytes)
      : prefix_(std::move(prefix)), max_line_bytes_(max_line_bytes) {}

  // The lines that `bytes` completes.
  std::string Append(absl::string_view bytes);
  // The stream has ended: what is left, as a line.
  std::string Finish();

 private:
  // Moves the first line from `rest` to `lines`; false if it is not known yet where it ends.
  bool TakeLine(absl::string_view& rest, std::string& lines) const;

  const std::string prefix_;
  const size_t max_line_bytes_;
  std::string held_;  // begins a line
};

}  // namespace tutti::launch

#endif  // TUTTI_TOOLS_TUTTI_RUN_LINE_PREFIXER_H_
