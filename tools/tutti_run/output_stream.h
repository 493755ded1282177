// OutputStream: the launcher's standard output or standard error, written without ever blocking.
//
// A reader that has stopped reading (a pager, a stopped terminal) must not keep the launcher from obeying a signal.
// What the reader does not take is kept here; whoever writes asks blocked() first and holds the sources back.

#ifndef TUTTI_TOOLS_TUTTI_RUN_OUTPUT_STREAM_H_
#define TUTTI_TOOLS_TUTTI_RUN_OUTPUT_STREAM_H_

#include <cerrno>
#include <string>

#include "absl/strings/string_view.h"
#include "src/base/fd.h"

namespace tutti::launch {

class OutputStream {
 public:
  // Does not own `fd`, and leaves its flags alone: others share them.
  explicit OutputStream(int fd);
  OutputStream(const OutputStream&) = delete;
  OutputStream& operator=(const OutputStream&) = delete;

  void Write(absl::string_view bytes);
  // Writes what the reader takes now.
  void Flush();

  bool blocked() const { return !pending_.empty(); }
  // The reader has gone: nothing that is written here is of use any more.
  bool broken() const { return error_ == EPIPE; }
  // Of the first write that failed; 0: none. What could not be written is dropped.
  int error() const { return error_; }
  // To poll for POLLOUT.
  int fd() const { return own_.valid() ? own_.get() : fd_; }

 private:
  const int fd_;
  Fd own_;  // of the same pipe or terminal, non-blocking
  bool is_socket_ = false;
  std::string pending_;
  int error_ = 0;
};

}  // namespace tutti::launch

#endif  // TUTTI_TOOLS_TUTTI_RUN_OUTPUT_STREAM_H_
