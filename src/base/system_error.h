// Statuses from errno.

#ifndef TUTTI_SRC_BASE_SYSTEM_ERROR_H_
#define TUTTI_SRC_BASE_SYSTEM_ERROR_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tutti {

// "`what`: <text of the error>", with absl's code for the error. kResourceExhausted for lack of file descriptors names
// the limit and how to raise it.
absl::Status SystemError(int error, absl::string_view what);

}  // namespace tutti

#endif  // TUTTI_SRC_BASE_SYSTEM_ERROR_H_
