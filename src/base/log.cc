#include "src/base/log.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "spdlog/sinks/sink.h"

namespace tutti {
namespace {

struct Level {
  absl::string_view name;
  spdlog::level::level_enum level;
};
constexpr std::array<Level, 5> kLevels = {{{"debug", spdlog::level::debug},
                                           {"info", spdlog::level::info},
                                           {"warning", spdlog::level::warn},
                                           {"error", spdlog::level::err},
                                           {"off", spdlog::level::off}}};

const char* NameOf(spdlog::level::level_enum level) {
  for (const Level& known : kLevels) {
    if (known.level == level) return known.name.data();
  }
  return "message";
}

// One write a line. spdlog's own sinks lock a mutex, which a fork can leave locked for ever in the child.
class StandardErrorSink final : public spdlog::sinks::sink {
 public:
  void log(const spdlog::details::log_msg& message) override {
    fmt::memory_buffer line;
    fmt::format_to(std::back_inserter(line), "tutti [pid {}] {}: ", ::getpid(), NameOf(message.level));
    line.append(message.payload.begin(), message.payload.end());
    line.push_back('\n');
    for (size_t written = 0; written < line.size();) {
      ssize_t result = ::write(STDERR_FILENO, line.data() + written, line.size() - written);
      if (result < 0 && errno == EINTR) continue;
      if (result <= 0) return;
      written += static_cast<size_t>(result);
    }
  }
  void flush() override {}
  void set_pattern(const std::string&) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter>) override {}
};

}  // namespace

spdlog::logger& Logger() {
  static spdlog::logger* const logger = [] {
    auto* made = new spdlog::logger("tutti", std::make_shared<StandardErrorSink>());
    made->set_level(spdlog::level::warn);
    return made;
  }();
  return *logger;
}

bool SetLogLevel(absl::string_view level) {
  for (const Level& known : kLevels) {
    if (known.name != level) continue;
    Logger().set_level(known.level);
    return true;
  }
  return false;
}

}  // namespace tutti
