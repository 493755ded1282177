// Real jobs: ranks as processes under tutti-run, that are killed, stopped, or disagree. Every live rank ends in time,
// with one and the same verdict that names the culprit, and nothing is left behind.

#include <cstdlib>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/host.h"
#include "tests/process/job.h"
#include "tests/process/launcher.h"

namespace tutti {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ContainsRegex;
using testing::Each;
using testing::Field;
using testing::HasSubstr;
using testing::Lt;
using testing::Not;
using testing::SizeIs;

TEST_F(Job, RanksMeetAndReduce) {
  for (const int ranks : {1, 2, 5}) {
    const Launcher::End end = Run(ranks, "sum");
    EXPECT_EQ(end.exit_status, 0) << end.err;
    const std::vector<RankLine> lines = RankLines(end.out);
    EXPECT_THAT(lines, AllOf(SizeIs(static_cast<size_t>(ranks)), Each(Field(&RankLine::code, "OK"))));
  }
}

TEST_F(Job, GroupsFollowEachOtherAtOneAddress) {
  const Launcher::End end = Run(4, "come-and-go");
  EXPECT_EQ(end.exit_status, 0) << end.err;
  EXPECT_THAT(RankLines(end.out), AllOf(SizeIs(4), Each(Field(&RankLine::code, "OK"))));
  EXPECT_THAT(end.err, Not(HasSubstr("warning")));
}

TEST_F(Job, AllRanksUseTheSettingsOfRankZero) {
  Launcher launcher({"-n", "3", "sh", "-c",
                     "[ $RANK = 1 ] && chosen=gather || chosen=direct; "
                     "TUTTI_SELECTION=\"all-reduce = $chosen\" exec " RANK_PROGRAM " sum"});
  const Launcher::End end = launcher.Wait();
  EXPECT_EQ(end.exit_status, 0) << end.err;
  EXPECT_THAT(SortedLines(end.err), Contains(HasSubstr("warning")).Times(1));
  EXPECT_THAT(end.err, HasSubstr("TUTTI_SELECTION is \"all-reduce = gather\" on rank 1, but \"all-reduce = direct\" on "
                                 "rank 0, which is used"));
}

// Bound by a launcher, each rank sees one processor: it must not take that for all that the ranks have.
TEST_F(Job, RanksYieldOnlyIfTheyOutnumberTheProcessorsOfAllOfThem) {
  if (UsableCpus() < 2) GTEST_SKIP() << "this process may use one processor only";
  const CpuSet allowed = AllowedCpus();
  const size_t one = allowed._Find_first(), other = allowed._Find_next(one);
  auto run = [](size_t first, size_t second) {
    Launcher launcher({"-n", "2", "sh", "-c",
                       absl::StrCat("[ $RANK = 0 ] && cpu=", first, " || cpu=", second,
                                    "; exec taskset -c $cpu " RANK_PROGRAM " sum")},
                      {.set = {"TUTTI_LOG=debug"}});
    const Launcher::End end = launcher.Wait();
    EXPECT_EQ(end.exit_status, 0) << end.err;
    return SortedLines(end.err);
  };
  EXPECT_THAT(run(one, other), Contains(HasSubstr("waiting = polls (2 ranks of this host on 2 processors)")).Times(2));
  EXPECT_THAT(run(one, one), Contains(HasSubstr("waiting = yields (2 ranks of this host on 1 processor)")).Times(2));
}

TEST_F(Job, AWrongSelectionIsRefusedByNameBeforeAnySocketIsOpened) {
  const std::vector<RankLine> lines =
      RankLines(Run(2, "sum", {"TUTTI_SELECTION=barrier = bruck; all-reduce = magic"}).out);
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_THAT(lines,
              Each(AllOf(Field(&RankLine::code, "INVALID_ARGUMENT"), Field(&RankLine::message, HasSubstr("magic")),
                         Field(&RankLine::message, HasSubstr("TUTTI_SELECTION")))));
}

// How the ranks of a job reach each other.
struct Path {
  std::string name;
  std::string suffix;  // of the scenario
  std::vector<std::string> set;
  int ranks_per_host = 0;
};

void PrintTo(const Path& path, std::ostream* out) { *out << path.name; }

class JobOnPath : public Job, public testing::WithParamInterface<Path> {
 protected:
  static Launcher::End Run(int ranks, const std::string& scenario) {
    return Job::Run(ranks, scenario + GetParam().suffix, GetParam().set, GetParam().ranks_per_host);
  }
};

TEST_P(JobOnPath, AKilledRankIsNamedByAllOthersWithinTwoSeconds) {
  const Launcher::End end = Run(4, "killed");
  EXPECT_EQ(end.exit_status, 128 + 9) << end.err;
  const std::vector<RankLine> lines = RankLines(end.out);
  ASSERT_THAT(lines, SizeIs(3)) << end.out << end.err;
  EXPECT_THAT(lines, Each(AllOf(Field(&RankLine::code, "UNAVAILABLE"), Field(&RankLine::message, HasSubstr("rank 1 ")),
                                Field(&RankLine::message, HasSubstr("pid")), Field(&RankLine::seconds, Lt(2.0)))));
  ExpectOneVerdict(lines);
}

TEST_P(JobOnPath, AStoppedRankIsNamedByAllOthersAtTheTimeOut) {
  const Launcher::End end = Run(4, "stopped");
  const std::vector<RankLine> lines = RankLines(end.out);
  ASSERT_THAT(lines, SizeIs(3)) << end.out << end.err;
  EXPECT_THAT(lines, Each(AllOf(Field(&RankLine::code, "DEADLINE_EXCEEDED"),
                                Field(&RankLine::message, HasSubstr("rank 2 ")), Field(&RankLine::seconds, Lt(5.0)))));
  ExpectOneVerdict(lines);
}

std::string PathName(const testing::TestParamInfo<Path>& path) { return path.param.name; }

INSTANTIATE_TEST_SUITE_P(Paths, JobOnPath,
                         testing::Values(Path{"SharedMemory", "", {}}, Path{"SharedLibraryMemory", "-library", {}},
                                         Path{"Tcp", "", {"TUTTI_SHARED_MEMORY=off"}},
                                         Path{"TwoHosts", "-library", {}, 2}),
                         PathName);

// Shared memory has no place in a file system.
TEST_F(Job, AFullDevShmDoesNoHarm) {
  const std::string own = "mount -t tmpfs -o size=1m tmpfs /dev/shm && ";
  if (std::system(("unshare -rm sh -c '" + own + "true' 2>/dev/null").c_str()) != 0) {
    GTEST_SKIP() << "mount namespaces are not permitted here";
  }
  const std::string fill = own + "head -c 2M /dev/zero >/dev/shm/file 2>/dev/null; exec \"$@\"";
  Launcher launcher({"-n", "3", RANK_PROGRAM, "sum"}, {.wrapper = {"unshare", "-rm", "sh", "-c", fill, "sh"}});
  const Launcher::End end = launcher.Wait();
  EXPECT_EQ(end.exit_status, 0) << end.err;
  EXPECT_THAT(RankLines(end.out), AllOf(SizeIs(3), Each(Field(&RankLine::code, "OK"))));
  EXPECT_THAT(end.err, Not(HasSubstr("shares no memory")));
}

TEST_F(Job, RanksThatWaitCostNearlyNothing) {
  const std::vector<RankLine> lines = RankLines(Run(8, "idle").out);
  ASSERT_THAT(lines, SizeIs(8));
  EXPECT_THAT(lines, Each(Field(&RankLine::code, "DEADLINE_EXCEEDED")));
}

TEST_F(Job, AllRanksThatDoNotComeAreNamedAtTheTimeOutAndInAWarningBefore) {
  const Launcher::End end = Run(5, "absent", {"TUTTI_STRAGGLER_WARNING=0.3s"});
  const std::vector<RankLine> lines = RankLines(end.out);
  ASSERT_THAT(lines, SizeIs(5)) << end.out << end.err;
  EXPECT_THAT(lines, Each(AllOf(Field(&RankLine::code, "DEADLINE_EXCEEDED"), Field(&RankLine::seconds, Lt(3.0)))));
  ExpectOneVerdict(lines);
  const auto names_both =
      AllOf(ContainsRegex("rank 1 \\([^)]*, pid [0-9]+\\) has not arrived: alive, last operation 1"),
            ContainsRegex("rank 3 \\([^)]*, pid [0-9]+\\) has not arrived: alive, last operation 1"),
            Not(ContainsRegex("rank [024] \\([^)]*\\) has not arrived")));
  EXPECT_THAT(lines[0].message, AllOf(HasSubstr("barrier"), names_both));
  EXPECT_THAT(
      SortedLines(end.err),
      Contains(AllOf(HasSubstr("warning: operation 2 (barrier) is called by ranks 0, 2, 4"), names_both)).Times(1));
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
  for (const char* shared : {"on", "off"}) {
    SCOPED_TRACE(shared);
    const Launcher::End end = Run(4, GetParam().kind, {std::string("TUTTI_SHARED_MEMORY=") + shared});
    const std::vector<RankLine> lines = RankLines(end.out);
    ASSERT_THAT(lines, SizeIs(4)) << end.out << end.err;
    EXPECT_THAT(lines, Each(AllOf(Field(&RankLine::code, "FAILED_PRECONDITION"), Field(&RankLine::seconds, Lt(2.0)),
                                  Field(&RankLine::message, HasSubstr(GetParam().odd)),
                                  Field(&RankLine::message, HasSubstr(GetParam().others)),
                                  Field(&RankLine::message, HasSubstr("rank 1")))));
    ExpectOneVerdict(lines);
  }
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
