// Log lines: "tutti [rank 3] warning: ...", to standard error. TUTTI_LOG sets the least severity: debug, info, warning
// (default), error, off.
//
//   TUTTI_LOG_WARNING("store: dropped {}: {}", address, reason);      // fmt syntax

#ifndef TUTTI_SRC_BASE_LOG_H_
#define TUTTI_SRC_BASE_LOG_H_

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "spdlog/spdlog.h"

namespace tutti {

// The logger of the library; never null.
spdlog::logger& Logger();

// "debug" ... "off"; false, and nothing changed, for anything else.
bool SetLogLevel(absl::string_view level);

}  // namespace tutti

#define TUTTI_LOG_DEBUG(...) ::tutti::Logger().debug(__VA_ARGS__)
#define TUTTI_LOG_INFO(...) ::tutti::Logger().info(__VA_ARGS__)
#define TUTTI_LOG_WARNING(...) ::tutti::Logger().warn(__VA_ARGS__)
#define TUTTI_LOG_ERROR(...) ::tutti::Logger().error(__VA_ARGS__)

#endif  // TUTTI_SRC_BASE_LOG_H_
