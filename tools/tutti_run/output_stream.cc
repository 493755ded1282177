#include "tools/tutti_run/output_stream.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace tutti::launch {

OutputStream::OutputStream(int fd) : fd_(fd) {
  struct stat status;
  if (fstat(fd, &status) != 0) return;
  is_socket_ = S_ISSOCK(status.st_mode);
  // A second open file description of a pipe or terminal has flags of its own. A regular file would get an offset of
  // its own too, and never blocks anyway. Where /proc is missing, writes block.
  if (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode)) {
    own_ = Fd(open(absl::StrCat("/proc/self/fd/", fd).c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  }
}

void OutputStream::Write(absl::string_view bytes) {
  if (error_ != 0) return;
  absl::StrAppend(&pending_, bytes);
  Flush();
}

void OutputStream::Flush() {
  size_t written = 0;
  while (written < pending_.size()) {
    const char* data = pending_.data() + written;
    const size_t size = pending_.size() - written;
    const ssize_t n = is_socket_ ? send(fd_, data, size, MSG_DONTWAIT | MSG_NOSIGNAL) : write(fd(), data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n < 0) {
      error_ = errno;
      written = pending_.size();
      break;
    }
    written += static_cast<size_t>(n);
  }
  pending_.erase(0, written);
}

}  // namespace tutti::launch
