// Several groups in each process: split off one another, used at the same time, and failing by themselves.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/process/job.h"
#include "tests/process/launcher.h"

namespace tutti {
namespace {

using testing::AllOf;
using testing::Each;
using testing::Field;
using testing::HasSubstr;
using testing::Lt;
using testing::Not;
using testing::SizeIs;

class SplitJob : public Job {
 protected:
  static void ExpectAllWell(const std::string& scenario) {
    const Launcher::End end = Run(4, scenario);
    EXPECT_EQ(end.exit_status, 0) << end.err;
    EXPECT_THAT(RankLines(end.out), AllOf(SizeIs(4), Each(Field(&RankLine::code, "OK")))) << end.err;
    EXPECT_THAT(end.err, Not(HasSubstr("warning"))) << "a split, or an end in order, is nothing to warn of";
  }
};

TEST_F(SplitJob, TwoColorsReduceAtTheSameTimeInTheOrderOfTheirKeys) { ExpectAllWell("split-two"); }

TEST_F(SplitJob, EqualKeysKeepTheOrderOfTheRanks) { ExpectAllWell("split-equal-keys"); }

TEST_F(SplitJob, ARankWithoutColorGetsNoGroup) { ExpectAllWell("split-without"); }

TEST_F(SplitJob, AGroupThatWasSplitOffIsSplitAgain) { ExpectAllWell("split-nested"); }

TEST_F(SplitJob, AGroupOutlivesItsParent) { ExpectAllWell("split-orphaned"); }

TEST_F(SplitJob, ManyGroupsComeAndGo) { ExpectAllWell("split-many"); }

TEST_F(SplitJob, TwoThreadsUseAGroupEach) { ExpectAllWell("threads-apart"); }

TEST_F(SplitJob, TwoThreadsShareAGroupInAnOrderThatTheRanksAgreeOn) { ExpectAllWell("threads-agreed"); }

TEST_F(SplitJob, ThreadsThatDisagreeAcrossRanksFailOnAllRanksNamingBothSides) {
  const std::vector<RankLine> lines = RankLines(Run(4, "threads-at-odds").out);
  ASSERT_THAT(lines, SizeIs(4));
  EXPECT_THAT(lines, Each(AllOf(Field(&RankLine::code, "FAILED_PRECONDITION"),
                                Field(&RankLine::message, HasSubstr("rank 1: all-reduce of 1001")),
                                Field(&RankLine::message, HasSubstr(": all-reduce of 1000 float32")))));
  ExpectOneVerdict(lines);
}

TEST_F(SplitJob, AWrongColorIsNamedOnAllRanksAndHarmsNobody) {
  const std::vector<RankLine> lines = RankLines(Run(4, "split-wrong").out);
  ASSERT_THAT(lines, SizeIs(4));
  EXPECT_THAT(lines,
              Each(AllOf(Field(&RankLine::code, "INVALID_ARGUMENT"), Field(&RankLine::message, HasSubstr("rank 2 ")),
                         Field(&RankLine::message, HasSubstr("-7")))));
  ExpectOneVerdict(lines);
}

TEST_F(SplitJob, AKilledRankEndsItsGroupsAndNoOthers) {
  const Launcher::End end = Run(4, "split-killed");
  const std::vector<RankLine> lines = RankLines(end.out);
  ASSERT_THAT(lines, SizeIs(3)) << end.out << end.err;
  EXPECT_THAT(lines, Each(AllOf(Field(&RankLine::code, "UNAVAILABLE"), Field(&RankLine::seconds, Lt(2.0)),
                                Field(&RankLine::message, HasSubstr("pid")))));
  EXPECT_THAT(lines[0].message, AllOf(HasSubstr("in the group split 1 color 0: rank 0 ("), HasSubstr("died")));
  // Their half has gone on; this is the parent's verdict.
  for (const RankLine& line : {lines[1], lines[2]}) EXPECT_THAT(line.message, HasSubstr("rank 1 ("));
  EXPECT_EQ(lines[1].message, lines[2].message);
}

}  // namespace
}  // namespace tutti
