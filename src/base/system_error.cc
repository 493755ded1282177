#include "src/base/system_error.h"

#include <sys/resource.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace tutti {

absl::Status SystemError(int error, absl::string_view what) {
  if (error == EMFILE) {
    rlimit limit = {};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    return absl::ResourceExhaustedError(absl::StrCat(what, ": this process has reached its limit of ", limit.rlim_cur,
                                                     " file descriptors; raise it with `ulimit -n` (hard limit ",
                                                     limit.rlim_max, ")"));
  }
  return absl::ErrnoToStatus(error, what);
}

}  // namespace tutti
