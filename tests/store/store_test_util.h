// What the tests of stores share.

#ifndef TUTTI_TESTS_STORE_STORE_TEST_UTIL_H_
#define TUTTI_TESTS_STORE_STORE_TEST_UTIL_H_

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/host.h"
#include "src/identity/hello.h"

namespace tutti {

inline Identity TestIdentity(int rank, int world_size, std::string job_id = "test-job") {
  const HostInfo host = ThisHost();
  return Identity{.version = "test",
                  .job_id = std::move(job_id),
                  .rank = rank,
                  .world_size = world_size,
                  .hostname = host.hostname,
                  .host_id = "test-host",
                  .boot_id = host.boot_id,
                  .pid = host.pid};
}

// For what has to happen: reached only by a failing test.
inline absl::Time Soon() { return absl::Now() + absl::Seconds(20); }
// For what must not happen.
inline absl::Time Brief() { return absl::Now() + absl::Milliseconds(30); }

// A directory of its own, removed at the end.
class TestDirectory {
 public:
  TestDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "tutti-store-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "mkdtemp " << name;
    path_ = name;
  }
  ~TestDirectory() { std::filesystem::remove_all(path_); }
  TestDirectory(const TestDirectory&) = delete;
  TestDirectory& operator=(const TestDirectory&) = delete;

  std::string File(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

MATCHER(IsOk, "is OK") {
  if (arg.ok()) return true;
  *result_listener << testing::PrintToString(arg);
  return false;
}

// A Status of this code with all of these texts in its message.
template <typename... Texts>
testing::Matcher<const absl::Status&> Fails(absl::StatusCode code, const Texts&... texts) {
  return testing::AllOf(testing::Property("code", &absl::Status::code, code),
                        testing::ResultOf(
                            "message", [](const absl::Status& status) { return std::string(status.message()); },
                            testing::AllOf(testing::HasSubstr(texts)..., testing::_)));
}

}  // namespace tutti

#endif  // TUTTI_TESTS_STORE_STORE_TEST_UTIL_H_
