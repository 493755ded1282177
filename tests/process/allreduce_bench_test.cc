// allreduce_bench as its users run it: what it prints, what it finds, and how it ends.

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/process/launcher.h"

namespace tutti {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;

Launcher::End RunBench(int ranks, const std::vector<std::string>& flags) {
  std::vector<std::string> arguments = {"-n", absl::StrCat(ranks), "--grace", "1", ALLREDUCE_BENCH};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  return Launcher(arguments).Wait();
}

// The columns of the rows that are no comments, without the launcher's "[0]".
std::vector<std::vector<std::string>> Rows(const std::string& out) {
  std::vector<std::vector<std::string>> rows;
  for (const absl::string_view line : absl::StrSplit(out, '\n', absl::SkipEmpty())) {
    if (absl::StrContains(line, '#')) continue;
    std::vector<std::string> columns = absl::StrSplit(line, ' ', absl::SkipEmpty());
    columns.erase(columns.begin());
    rows.push_back(columns);
  }
  return rows;
}

double Number(const std::string& text) {
  double value = -1;
  EXPECT_TRUE(absl::SimpleAtod(text, &value)) << text;
  return value;
}

constexpr size_t kColumns = 17;
constexpr size_t kSize = 0, kCount = 1, kOperator = 3, kRoot = 4, kBandwidth = 6, kBusBandwidth = 7, kWrong = 8,
                 kInPlaceTime = 9, kInPlaceWrong = 12, kMinimum = 13;

constexpr const char* kCollectives[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                        "reduce",     "gather",         "scatter",    "all_to_all"};

TEST(AllreduceBench, PrintsARowPerSizeWithoutWrongElements) {
  const Launcher::End end = RunBench(2, {"-b", "4", "-e", "1K", "-f", "16", "-n", "3", "-w", "1"});
  EXPECT_EQ(end.exit_status, 0) << end.err;
  const auto rows = Rows(end.out);
  ASSERT_THAT(rows, SizeIs(3)) << end.out;
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_THAT(rows[i], SizeIs(kColumns));
    EXPECT_EQ(rows[i][kSize], std::vector<std::string>({"4", "64", "1024"})[i]);
    EXPECT_EQ(rows[i][kInPlaceWrong], "0");
    EXPECT_GT(Number(rows[i][kInPlaceTime]), 0);
  }
  EXPECT_THAT(end.out, HasSubstr("# Out of bounds values : 0 OK"));
}

TEST(AllreduceBench, ReducesEveryTypeWithEveryOperator) {
  const Launcher::End end = RunBench(3, {"-b", "1003", "-d", "all", "-o", "all", "-n", "1", "-w", "0"});
  EXPECT_EQ(end.exit_status, 0) << end.out << end.err;
  EXPECT_THAT(Rows(end.out), SizeIs(12 * 5));
}

TEST(AllreduceBench, OneRankNoBytesAndNoIterationsAreNoSpecialCases) {
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"-b", "64", "-n", "2"}, {"-b", "0", "-n", "2"}, {"-b", "64", "-n", "0"}}) {
    const Launcher::End end = RunBench(1, flags);
    EXPECT_EQ(end.exit_status, 0) << end.err;
    const auto rows = Rows(end.out);
    ASSERT_THAT(rows, SizeIs(1));
    EXPECT_EQ(Number(rows[0][kBusBandwidth]), 0);
  }
}

TEST(AllreduceBench, TimesAndChecksEveryCollective) {
  for (const char* collective : kCollectives) {
    SCOPED_TRACE(collective);
    const Launcher::End end = RunBench(3, {"-C", collective, "-b", "1000", "-d", "all", "-n", "2", "-w", "1"});
    EXPECT_EQ(end.exit_status, 0) << end.out << end.err;
    EXPECT_THAT(Rows(end.out), SizeIs(12));
    EXPECT_THAT(end.out, HasSubstr(absl::StrCat("# Collective test concluded: ", collective, "_perf")));
  }
}

TEST(AllreduceBench, FindsTheElementThatIsWrongInEveryCollective) {
  for (const char* collective : kCollectives) {
    const Launcher::End end = RunBench(2, {"-C", collective, "-b", "4000", "-n", "1", "--corrupt_one_element"});
    EXPECT_EQ(end.exit_status, 1) << collective;
    const auto rows = Rows(end.out);
    ASSERT_THAT(rows, SizeIs(1));
    EXPECT_EQ(rows[0][kWrong], "1") << collective;
  }
}

TEST(AllreduceBench, BusBandwidthCountsWhatTheCollectiveMoves) {
  const struct {
    const char* collective;
    double factor;  // with 4 ranks
  } cases[] = {{"all_reduce", 1.5}, {"reduce_scatter", 0.75}, {"all_gather", 0.75}, {"broadcast", 1},
               {"reduce", 1},       {"gather", 0.75},         {"scatter", 0.75},    {"all_to_all", 0.75}};
  for (const auto& c : cases) {
    const Launcher::End end = RunBench(4, {"-C", c.collective, "-b", "1M", "-n", "2"});
    const auto rows = Rows(end.out);
    ASSERT_THAT(rows, SizeIs(1));
    const double bandwidth = Number(rows[0][kBandwidth]);
    EXPECT_NEAR(Number(rows[0][kBusBandwidth]), bandwidth * c.factor, 0.02) << c.collective;
  }
}

TEST(AllreduceBench, RoundsTheSizeDownToOnePartPerRank) {
  const auto rows = Rows(RunBench(3, {"-C", "all_gather", "-b", "1000", "-n", "1"}).out);
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0][kSize], "996");
  EXPECT_EQ(rows[0][kCount], "249");
}

TEST(AllreduceBench, HasNoInPlaceResultOfAnAllToAll) {
  const auto rows = Rows(RunBench(2, {"-C", "all_to_all", "-b", "64", "-n", "1"}).out);
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0][kInPlaceTime], "N/A");
  EXPECT_GT(Number(rows[0][kMinimum]), 0);
}

TEST(AllreduceBench, SaysTheRootAndThatNothingIsReduced) {
  const auto rows = Rows(RunBench(2, {"-C", "broadcast", "-b", "64", "-n", "1"}).out);
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0][kOperator], "none");
  EXPECT_EQ(rows[0][kRoot], "0");
}

TEST(AllreduceBench, CountsTheElementThatIsWrongAndEndsWithOne) {
  const Launcher::End end = RunBench(2, {"-b", "4000", "-n", "2", "--corrupt_one_element"});
  EXPECT_EQ(end.exit_status, 1);
  const auto rows = Rows(end.out);
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0][kCount], "1000");
  EXPECT_EQ(rows[0][kInPlaceWrong], "1");
  EXPECT_THAT(end.out, AllOf(HasSubstr("FAILED"), HasSubstr("index 500 of 1000")));
}

TEST(AllreduceBench, TimesTheSlowestRank) {
  const Launcher::End end = RunBench(2, {"-b", "4", "-n", "3", "--delay_rank", "1"});
  const auto rows = Rows(end.out);
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_GE(Number(rows[0][kMinimum]), 5000);
}

TEST(AllreduceBench, RefusesFlagsByName) {
  const struct {
    std::vector<std::string> flags;
    std::string message;
  } cases[] = {
      {{"-b", "abc"}, "-b \"abc\""},
      {{"-b", "-1"}, "-1"},
      {{"-e", "4X"}, "-e \"4X\""},
      {{"-b", "8", "-e", "4"}, "-b 8"},
      {{"-f", "0.5"}, "-f 0.5"},
      {{"-d", "float8"}, "-d \"float8\""},
      {{"-o", "xor"}, "-o \"xor\""},
      {{"-C", "all_to_none"}, "-C \"all_to_none\""},
      {{"-C", "all_gather", "-o", "sum"}, "all_gather reduces nothing"},
  };
  for (const auto& c : cases) {
    const Launcher::End end = RunBench(1, c.flags);
    EXPECT_EQ(end.exit_status, 2) << c.message;
    EXPECT_THAT(end.err, HasSubstr(c.message));
  }
}

}  // namespace
}  // namespace tutti
