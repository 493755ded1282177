// ddp_bench as its users run it: what it finds, what it writes, and how it ends.

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/process/launcher.h"

namespace tutti {
namespace {

using testing::HasSubstr;

class DdpBench : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(json_path_); }

  Launcher::End Run(int ranks, const std::vector<std::string>& flags) {
    std::vector<std::string> arguments = {"-n",     absl::StrCat(ranks), "--grace", "1", DDP_BENCH, "--warmup", "0",
                                          "--json", json_path_};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return Launcher(arguments).Wait();
  }

  nlohmann::json Results() const { return nlohmann::json::parse(std::ifstream(json_path_), nullptr, false); }

 private:
  const std::string json_path_ = absl::StrCat(testing::TempDir(), "ddp_bench_test.", getpid(), ".json");
};

TEST_F(DdpBench, ReducesEveryGradientOfTheSmallModelRightly) {
  for (const int ranks : {1, 2, 3}) {
    SCOPED_TRACE(ranks);
    const Launcher::End end = Run(ranks, {"--model", "small", "--steps", "2", "--compute_ms", "1"});
    EXPECT_EQ(end.exit_status, 0) << end.out << end.err;
    EXPECT_THAT(end.out, HasSubstr("# wrong elements: 0\n"));
    const nlohmann::json results = Results();
    ASSERT_TRUE(results.is_object());
    EXPECT_EQ(results["ranks"], ranks);
    EXPECT_EQ(results["divisor"], ranks);
    EXPECT_EQ(results["elements"], 1000000);
    EXPECT_EQ(results["tensors"], 200);
    EXPECT_EQ(results["bytes"], 4000000);
    EXPECT_EQ(results["wrong_elements"], 0);
    EXPECT_GT(results["communication_ms"]["median"], 0);
  }
}

TEST_F(DdpBench, ReducesTheBigModelInBucketsOfTheSizeAskedFor) {
  const Launcher::End end =
      Run(2, {"--model", "big", "--steps", "1", "--compute_ms", "1", "--bucket_cap", "50M", "--first_bucket", "50M"});
  EXPECT_EQ(end.exit_status, 0) << end.out << end.err;
  const nlohmann::json results = Results();
  ASSERT_TRUE(results.is_object());
  EXPECT_EQ(results["elements"], 26700800);
  EXPECT_EQ(results["bytes"], 4 * 26700800);
  EXPECT_EQ(results["collectives"], 3);
}

TEST_F(DdpBench, ComputesAsLongAsItIsAskedTo) {
  EXPECT_EQ(Run(2, {"--model", "small", "--steps", "2", "--compute_ms", "100"}).exit_status, 0);
  const nlohmann::json results = Results();
  ASSERT_TRUE(results.is_object());
  // Only from below, and roughly: what else runs on the machine can make a calibrated step longer, and the calibration.
  EXPECT_GT(results["compute_ms"]["max"], 20);
  EXPECT_GE(results["step_ms"]["max"], 20);
}

TEST_F(DdpBench, CountsElementsThatAreWrongAndEndsWithOne) {
  const Launcher::End end = Run(2, {"--model", "small", "--steps", "2", "--compute_ms", "1", "--corrupt_one_element"});
  EXPECT_EQ(end.exit_status, 1);
  EXPECT_THAT(end.out, HasSubstr("# wrong elements: 4\n"));  // of one rank, after each of two reductions in two steps
}

TEST_F(DdpBench, RefusesFlagsByName) {
  const struct {
    std::vector<std::string> flags;
    std::string message;
  } cases[] = {{{"--model", "huge"}, "--model"},
               {{"--steps", "0"}, "--steps"},
               {{"--bucket_cap", "12X"}, "--bucket_cap"},
               {{"--compute_ms", "-1"}, "--compute_ms"}};
  for (const auto& c : cases) {
    const Launcher::End end = Run(1, c.flags);
    EXPECT_EQ(end.exit_status, 2) << c.message;
    EXPECT_THAT(end.err, HasSubstr(c.message));
  }
}

}  // namespace
}  // namespace tutti
