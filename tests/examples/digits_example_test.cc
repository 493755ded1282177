// Runs the digits example with tutti-run, and reads its last line.

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "tests/process/launcher.h"

namespace tutti {
namespace {

struct Result {
  int ranks = 0;
  double accuracy = 0, gradient_difference = 1, weight_difference = 1;
};

// Of the last line, which must be rank 0's; all defaults if it is anything else.
Result ParseResult(absl::string_view out) {
  const std::vector<std::string> lines = absl::StrSplit(out, '\n', absl::SkipEmpty());
  Result result;
  char rest = 0;
  if (lines.empty() ||
      std::sscanf(lines.back().c_str(),
                  "[0] result ranks=%d accuracy=%lf gradient_difference=%le weight_difference=%le%c", &result.ranks,
                  &result.accuracy, &result.gradient_difference, &result.weight_difference, &rest) != 4) {
    return {};
  }
  return result;
}

class DigitsExampleTest : public testing::TestWithParam<int> {};

TEST_P(DigitsExampleTest, LearnsAsMuchAsOneProcessAlone) {
  Launcher launcher({"-n", absl::StrCat(GetParam()), DIGITS_BINARY, "--verify", "--epochs", "10"});
  const Launcher::End end = launcher.Wait();
  EXPECT_EQ(end.exit_status, 0) << end.err;
  const Result result = ParseResult(end.out);
  EXPECT_EQ(result.ranks, GetParam()) << end.out;
  EXPECT_GE(result.accuracy, 0.95);
  EXPECT_LT(result.gradient_difference, 1e-5);
  EXPECT_LT(result.weight_difference, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Ranks, DigitsExampleTest, testing::Values(1, 3, 4));

TEST(DigitsExampleTest, LearnsFromBatchesThatLeaveSomeRanksWithoutSamples) {
  // 1437 samples in batches of 5, for 4 ranks with 3 micro-batches each; the last batch has 2.
  Launcher launcher({"-n", "4", DIGITS_BINARY, "--verify", "--batch", "5", "--accumulate", "3", "--epochs", "1",
                     "--learning_rate", "0.02"});
  const Launcher::End end = launcher.Wait();
  EXPECT_EQ(end.exit_status, 0) << end.err;
  const Result result = ParseResult(end.out);
  EXPECT_GE(result.accuracy, 0.8);
  EXPECT_LT(result.gradient_difference, 1e-5);
  EXPECT_LT(result.weight_difference, 1e-5);
}

TEST(DigitsExampleTest, SaysWhatIsWrongWithItsData) {
  Launcher launcher({"-n", "2", DIGITS_BINARY, "--data", "/dev/null"});
  const Launcher::End end = launcher.Wait();
  EXPECT_EQ(end.exit_status, 1);
  EXPECT_NE(end.err.find("digits: /dev/null: no samples"), std::string::npos) << end.err;
}

}  // namespace
}  // namespace tutti
