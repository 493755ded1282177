// Log lines: "tutti [pid 4711] warning: ...", to standard error. The least severity is warning until SetLogLevel says
// otherwise (the group passes TUTTI_LOG on to it).
//
//   TUTTI_LOG_WARNING("store: dropped {}: {}", address, reason);      // fmt syntax

#ifndef TUTTI_SRC_BASE_LOG_H_
#define TUTTI_SRC_BASE_LOG_H_

#include "absl/strings/string_view.h"
#include "spdlog/spdlog.h"

namespace tutti {

// The logger of the library. It is never destroyed, holds no lock while it writes, and is not in spdlog's registry: so
// it works in static destructors, in forked children, and beside other copies of Tutti or spdlog in the process.
spdlog::logger& Logger();

// "debug", "info", "warning", "error" or "off"; false, and nothing changed, for anything else.
bool SetLogLevel(absl::string_view level);

}  // namespace tutti

#define TUTTI_LOG_DEBUG(...) ::tutti::Logger().debug(__VA_ARGS__)
#define TUTTI_LOG_INFO(...) ::tutti::Logger().info(__VA_ARGS__)
#define TUTTI_LOG_WARNING(...) ::tutti::Logger().warn(__VA_ARGS__)
#define TUTTI_LOG_ERROR(...) ::tutti::Logger().error(__VA_ARGS__)

#endif  // TUTTI_SRC_BASE_LOG_H_
