#include "src/base/log.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace tutti {
namespace {

class LogTest : public ::testing::Test {
 protected:
  ~LogTest() override { SetLogLevel("warning"); }
  static std::string Prefix() { return absl::StrCat("tutti [pid ", ::getpid(), "] "); }
};

TEST_F(LogTest, WritesOneLineAMessageToStandardError) {
  ::testing::internal::CaptureStderr();
  TUTTI_LOG_WARNING("store: dropped {}: {}", "10.0.0.1:5", 42);
  TUTTI_LOG_ERROR("plain");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            Prefix() + "warning: store: dropped 10.0.0.1:5: 42\n" + Prefix() + "error: plain\n");
}

TEST_F(LogTest, LeavesOutWhatIsBelowTheLevel) {
  ::testing::internal::CaptureStderr();
  TUTTI_LOG_INFO("left out");
  ASSERT_TRUE(SetLogLevel("debug"));
  TUTTI_LOG_DEBUG("shown");
  ASSERT_TRUE(SetLogLevel("off"));
  TUTTI_LOG_ERROR("left out");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), Prefix() + "debug: shown\n");
}

TEST_F(LogTest, RefusesAnUnknownLevelAndKeepsTheOldOne) {
  ASSERT_TRUE(SetLogLevel("error"));
  for (const char* level : {"", "WARNING", "warn", "verbose", "error "}) EXPECT_FALSE(SetLogLevel(level)) << level;
  EXPECT_EQ(Logger().level(), spdlog::level::err);
}

TEST_F(LogTest, StaysOutOfTheRegistry) {
  Logger();
  EXPECT_EQ(spdlog::get("tutti"), nullptr);
}

TEST_F(LogTest, NamesTheChildAfterAFork) {
  ::testing::internal::CaptureStderr();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    TUTTI_LOG_WARNING("from the child");
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            absl::StrCat("tutti [pid ", child, "] warning: from the child\n"));
}

struct LogsWhenDestroyed {
  ~LogsWhenDestroyed() { TUTTI_LOG_WARNING("still here"); }
};

TEST_F(LogTest, WorksInStaticDestructors) {
  EXPECT_EXIT(
      {
        static LogsWhenDestroyed last;
        Logger();
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "warning: still here");
}

}  // namespace
}  // namespace tutti
