// Real jobs: ranks as processes under tutti-run, that are killed, stopped, or disagree. Every live rank ends in time,
// with one and the same verdict that names the culprit, and nothing is left behind.

#include <dirent.h>

#include <algorithm>
#include <string>
#include <utility>
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
using testing::Each;
using testing::Field;
using testing::HasSubstr;
using testing::Lt;
using testing::SizeIs;

struct RankLine {
  int rank;
  std::string code;
  double seconds;
  std::string message;
};

void PrintTo(const RankLine& line, std::ostream* out) {
  *out << "rank " << line.rank << ": " << line.code << " after " << line.seconds << " s: " << line.message;
}

// "[2] status UNAVAILABLE after 0.123 s: message"
std::vector<RankLine> RankLines(const std::string& out) {
  std::vector<RankLine> lines;
  for (const std::string& line : SortedLines(out)) {
    const std::vector<std::string> words = absl::StrSplit(line, absl::MaxSplits(' ', 6));
    if (words.size() < 7 || words[1] != "status") continue;
    RankLine parsed{.rank = -1, .code = words[2], .seconds = -1, .message = words[6]};
    EXPECT_TRUE(absl::SimpleAtoi(words[0].substr(1, words[0].size() - 2), &parsed.rank)) << line;
    EXPECT_TRUE(absl::SimpleAtod(words[4], &parsed.seconds)) << line;
    lines.push_back(parsed);
  }
  return lines;
}

int SharedMemoryFiles() {
  int count = 0;
  if (DIR* directory = opendir("/dev/shm")) {
    while (readdir(directory) != nullptr) ++count;
    closedir(directory);
  }
  return count;
}

class Job : public testing::Test {
 protected:
  // Runs the scenario on `ranks` ranks to its end, and checks that nothing is left.
  Launcher::End Run(int ranks, const std::string& scenario) {
    const int files = SharedMemoryFiles();
    Launcher launcher({"-n", absl::StrCat(ranks), "--grace", "1", RANK_PROGRAM, scenario});
    Launcher::End end = launcher.Wait();
    launcher.WaitForAll();
    EXPECT_THAT(launcher.Processes(), testing::IsEmpty());
    EXPECT_EQ(SharedMemoryFiles(), files);
    return end;
  }

  static void ExpectOneVerdict(const std::vector<RankLine>& lines) {
    for (const RankLine& line : lines) {
      EXPECT_EQ(line.code, lines[0].code);
      EXPECT_EQ(line.message, lines[0].message);
    }
  }
};

TEST_F(Job, RanksMeetAndReduce) {
  for (const int ranks : {1, 2, 5}) {
    const Launcher::End end = Run(ranks, "sum");
    EXPECT_EQ(end.exit_status, 0) << end.err;
    const std::vector<RankLine> lines = RankLines(end.out);
    EXPECT_THAT(lines, AllOf(SizeIs(static_cast<size_t>(ranks)), Each(Field(&RankLine::code, "OK"))));
  }
}

TEST_F(Job, AKilledRankIsNamedByAllOthersWithinTwoSeconds) {
  const Launcher::End end = Run(4, "killed");
  EXPECT_EQ(end.exit_status, 128 + 9) << end.err;
  const std::vector<RankLine> lines = RankLines(end.out);
  ASSERT_THAT(lines, SizeIs(3)) << end.out << end.err;
  EXPECT_THAT(lines, Each(AllOf(Field(&RankLine::code, "UNAVAILABLE"), Field(&RankLine::message, HasSubstr("rank 1 ")),
                                Field(&RankLine::message, HasSubstr("pid")), Field(&RankLine::seconds, Lt(2.0)))));
  ExpectOneVerdict(lines);
}

TEST_F(Job, AStoppedRankIsNamedByAllOthersAtTheTimeOut) {
  const Launcher::End end = Run(4, "stopped");
  const std::vector<RankLine> lines = RankLines(end.out);
  ASSERT_THAT(lines, SizeIs(3)) << end.out << end.err;
  EXPECT_THAT(lines, Each(AllOf(Field(&RankLine::code, "DEADLINE_EXCEEDED"),
                                Field(&RankLine::message, HasSubstr("rank 2 ")), Field(&RankLine::seconds, Lt(5.0)))));
  ExpectOneVerdict(lines);
}

TEST_F(Job, AnAbortReachesAll) {
  const std::vector<RankLine> lines = RankLines(Run(3, "abort").out);
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_THAT(lines,
              Each(AllOf(Field(&RankLine::code, "ABORTED"), Field(&RankLine::message, HasSubstr("rank 1")),
                         Field(&RankLine::message, HasSubstr("loss is NaN")), Field(&RankLine::seconds, Lt(2.0)))));
  ExpectOneVerdict(lines);
}

TEST_F(Job, ARankThatLeftIsNamedByThoseThatNeedIt) {
  const std::vector<RankLine> lines = RankLines(Run(3, "leave").out);
  ASSERT_THAT(lines, SizeIs(3));
  for (const RankLine& line : lines) {
    if (line.rank == 1) continue;
    EXPECT_EQ(line.code, "UNAVAILABLE");
    EXPECT_THAT(line.message, HasSubstr("rank 1"));
    EXPECT_LT(line.seconds, 3.0);
  }
}

struct MismatchCase {
  std::string kind;
  std::string odd, others;  // what the verdict says of rank 1, and of the others
};

class JobMismatch : public Job, public testing::WithParamInterface<MismatchCase> {};

TEST_P(JobMismatch, EndsAllRanksWithinTwoSecondsNamingBothSides) {
  const Launcher::End end = Run(4, GetParam().kind);
  const std::vector<RankLine> lines = RankLines(end.out);
  ASSERT_THAT(lines, SizeIs(4)) << end.out << end.err;
  EXPECT_THAT(lines, Each(AllOf(Field(&RankLine::code, "FAILED_PRECONDITION"), Field(&RankLine::seconds, Lt(2.0)),
                                Field(&RankLine::message, HasSubstr(GetParam().odd)),
                                Field(&RankLine::message, HasSubstr(GetParam().others)),
                                Field(&RankLine::message, HasSubstr("rank 1")))));
  ExpectOneVerdict(lines);
}

std::string KindName(const testing::TestParamInfo<MismatchCase>& mismatch) { return mismatch.param.kind; }

INSTANTIATE_TEST_SUITE_P(Kinds, JobMismatch,
                         testing::Values(MismatchCase{"count", "409598", "409600"},
                                         MismatchCase{"type", "int32", "float32"}, MismatchCase{"op", "max", "sum"},
                                         MismatchCase{"root", "from rank 1", "from rank 0"},
                                         MismatchCase{"order", "barrier", "all-reduce"},
                                         MismatchCase{"divisor", "2", "4"}),
                         KindName);

}  // namespace
}  // namespace tutti
