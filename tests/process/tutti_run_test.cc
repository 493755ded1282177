// Starts the real tutti-run with small shell programs, and looks at what it prints, how it ends and what it leaves.
// Programs that wait do so with `sleep 30`: longer than any test may take, and an end of their own if one fails.

#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/host.h"
#include "src/base/socket.h"
#include "tests/process/launcher.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr absl::Duration kSoon = absl::Seconds(2);

std::vector<std::string> Shell(int ranks, const std::string& script) {
  return {"-n", std::to_string(ranks), "/bin/sh", "-c", script};
}

std::vector<std::string> With(std::vector<std::string> options, const std::vector<std::string>& rest) {
  options.insert(options.end(), rest.begin(), rest.end());
  return options;
}

// What follows `key`, to the end of its line.
std::string ValueAfter(const std::string& text, const std::string& key) {
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits(key, 1));
  return parts.size() == 2 ? parts[1].substr(0, parts[1].find('\n')) : "";
}

SocketAddress Loopback(uint16_t port) { return SocketAddress::Parse("127.0.0.1:0")->WithPort(port); }

TEST(TuttiRunTest, TellsEachRankWhoItIs) {
  Launcher launcher(Shell(3, "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR ${MASTER_PORT:+port}"));
  const Launcher::End end = launcher.Wait();
  EXPECT_EQ(end.exit_status, 0) << end.err;
  EXPECT_THAT(SortedLines(end.out),
              ElementsAre("[0] 0/3 0/3 127.0.0.1 port", "[1] 1/3 1/3 127.0.0.1 port", "[2] 2/3 2/3 127.0.0.1 port"));
  EXPECT_THAT(launcher.Processes(), IsEmpty());
}

TEST(TuttiRunTest, GivesAllRanksOfAJobOneId) {
  Launcher launcher({"-n", "2", "--job-id", "mine", "/bin/sh", "-c", "echo $TUTTI_JOB_ID"});
  EXPECT_THAT(SortedLines(launcher.Wait().out), ElementsAre("[0] mine", "[1] mine"));
}

TEST(TuttiRunTest, HandsTheMastersSocketToRankZeroAlone) {
  Launcher launcher(Shell(2,
                          "if [ $RANK = 0 ]; then echo master $(readlink /proc/$$/fd/$TUTTI_STORE_FD);"
                          "else echo other fd=${TUTTI_STORE_FD-none} $(readlink /proc/$$/fd/*); fi"));
  const Launcher::End end = launcher.Wait();
  const std::string socket = ValueAfter(end.out, "[0] master ");
  EXPECT_THAT(socket, HasSubstr("socket:"));
  EXPECT_THAT(ValueAfter(end.out, "[1] other "), AllOf(HasSubstr("fd=none"), Not(HasSubstr(socket))));
}

TEST(TuttiRunTest, ListensFromTheStartAndNoLongerThanRankZeroLives) {
  Launcher launcher(Shell(2, "[ $RANK = 0 ] && echo port=$MASTER_PORT pid=$$ .; sleep 30"));
  ASSERT_TRUE(launcher.Prints(" .\n"));
  const auto port = static_cast<uint16_t>(std::stoi(ValueAfter(launcher.out(), "port=")));
  EXPECT_TRUE(ConnectAny({Loopback(port)}, absl::Now() + kSoon).ok());
  kill(std::stoi(ValueAfter(launcher.out(), "pid=")), SIGKILL);
  ASSERT_TRUE(launcher.Prints("was killed by signal 9"));
  EXPECT_FALSE(ConnectAny({Loopback(port)}, absl::Now()).ok());
}

TEST(TuttiRunTest, MakesOneJobOfSeveralNodes) {
  // Free a moment ago.
  const uint16_t port = LocalAddress(Listen(Loopback(0))->get())->port();
  const auto node = [&](int rank) -> std::vector<std::string> {
    return With({"--nnodes", "2", "--node-rank", std::to_string(rank), "--master-addr", "127.0.0.1", "--master-port",
                 std::to_string(port)},
                Shell(2, "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_PORT $TUTTI_JOB_ID"));
  };
  Launcher first(node(0)), second(node(1));
  const std::string rest = absl::StrCat(port, " 127.0.0.1:", port);
  EXPECT_THAT(SortedLines(first.Wait().out), ElementsAre("[0] 0/4 0/2 " + rest, "[1] 1/4 1/2 " + rest));
  EXPECT_THAT(SortedLines(second.Wait().out), ElementsAre("[2] 2/4 0/2 " + rest, "[3] 3/4 1/2 " + rest));
}

TEST(TuttiRunTest, RefusesToBeNodeZeroWhereThePortIsTaken) {
  const Fd holder = *Listen(Loopback(0));
  const std::string port = std::to_string(LocalAddress(holder.get())->port());
  Launcher launcher(With({"--nnodes", "2", "--node-rank", "0", "--master-addr", "127.0.0.1", "--master-port", port},
                         Shell(1, "echo started")));
  const Launcher::End end = launcher.Wait();
  EXPECT_EQ(end.exit_status, 1);
  EXPECT_EQ(end.out, "");
  EXPECT_THAT(end.err, AllOf(HasSubstr("127.0.0.1:" + port), HasSubstr("node 0")));
}

TEST(TuttiRunTest, KeepsTheStreamsApart) {
  Launcher launcher(Shell(2, "echo out; echo err >&2; printf partial"));
  const Launcher::End end = launcher.Wait();
  EXPECT_THAT(SortedLines(end.out), ElementsAre("[0] out", "[0] partial", "[1] out", "[1] partial"));
  EXPECT_THAT(SortedLines(end.err), AllOf(Contains("[0] err"), Contains("[1] err"), Not(Contains("[0] out"))));
}

TEST(TuttiRunTest, NeverMixesTwoRanksInALine) {
  Launcher launcher(Shell(
      4, "i=0; while [ $i -lt 300 ]; do printf a$RANK; printf b$RANK; printf \"c$RANK\\nd$RANK\"; i=$((i+1)); done"));
  const std::vector<std::string> lines = SortedLines(launcher.Wait().out);
  EXPECT_EQ(lines.size(), 4u * 301u);
  for (const std::string& line : lines) {
    const std::string r = line.substr(1, 1);
    EXPECT_TRUE(line == absl::StrCat("[", r, "] a", r, "b", r, "c", r) ||
                line == absl::StrCat("[", r, "] d", r, "a", r, "b", r, "c", r) ||
                line == absl::StrCat("[", r, "] d", r))
        << line;
  }
}

TEST(TuttiRunTest, PassesOnALotOfOutputCompletely) {
  Launcher launcher(Shell(2, "head -c 3000000 /dev/zero | tr '\\0' x | fold -w 99; echo; echo last"));
  const Launcher::End end = launcher.Wait();
  EXPECT_EQ(end.exit_status, 0);
  EXPECT_GE(end.out.size(), 6'000'000u);
  EXPECT_THAT(SortedLines(end.out), AllOf(Contains("[0] last"), Contains("[1] last")));
}

TEST(TuttiRunTest, GivesRanksAnEmptyInput) {
  Launcher launcher(Shell(1, "cat; echo read all"));
  EXPECT_EQ(launcher.Wait().out, "[0] read all\n");
}

TEST(TuttiRunTest, GivesRanksDefaultSignals) {
  Launcher launcher({"-n", "1", "grep", "-E", "Sig(Ign|Blk)", "/proc/self/status"},
                    {.ignored_signals = {SIGINT, SIGHUP, SIGTERM, SIGUSR1, SIGCHLD}});
  EXPECT_THAT(SortedLines(launcher.Wait().out),
              ElementsAre("[0] SigBlk:\t0000000000000000", "[0] SigIgn:\t0000000000000000"));
}

TEST(TuttiRunTest, LetsARankEndBeforeTheOthers) {
  Launcher launcher(Shell(2, "[ $RANK = 0 ] && exit 0; sleep 0.3; echo done"));
  const Launcher::End end = launcher.Wait();
  EXPECT_EQ(end.exit_status, 0);
  EXPECT_EQ(end.out, "[1] done\n");
}

TEST(TuttiRunTest, DoesNotWaitForWhatARankLeavesBehind) {
  Launcher launcher(Shell(2, "sleep 30 & (sleep 30 &) ; echo done"));
  const Launcher::End end = launcher.Wait();
  EXPECT_EQ(end.exit_status, 0);
  EXPECT_THAT(SortedLines(end.out), ElementsAre("[0] done", "[1] done"));
  EXPECT_LT(end.elapsed, kSoon);
  EXPECT_THAT(launcher.Processes(), IsEmpty());
}

TEST(TuttiRunTest, NamesTheRankThatFailsAndStopsTheOthers) {
  Launcher launcher(Shell(4, "[ $RANK = 2 ] && exit 3; sleep 30"));
  const Launcher::End end = launcher.Wait();
  EXPECT_EQ(end.exit_status, 3);
  EXPECT_THAT(end.err, AllOf(HasSubstr("tutti-run: rank 2 (pid "), HasSubstr(") exited with status 3\n")));
  EXPECT_LT(end.elapsed, 2 * kSoon);
  EXPECT_THAT(launcher.Processes(), IsEmpty());
}

TEST(TuttiRunTest, NamesTheSignalThatKilledARank) {
  Launcher launcher(Shell(2, "[ $RANK = 1 ] && kill -9 $$; exit 0"));
  const Launcher::End end = launcher.Wait();
  EXPECT_EQ(end.exit_status, 128 + SIGKILL);
  EXPECT_THAT(end.err, AllOf(HasSubstr("rank 1 (pid "), HasSubstr(") was killed by signal 9 (Killed)\n")));
}

TEST(TuttiRunTest, LetsTheSurvivorsSpeakFirst) {
  Launcher launcher(Shell(3, "[ $RANK = 1 ] && exit 3; sleep 0.3; echo rank 1 is gone >&2; exit 1"));
  const Launcher::End end = launcher.Wait();
  EXPECT_EQ(end.exit_status, 3);
  EXPECT_LT(end.elapsed, absl::Seconds(1.8)) << "waited although all had ended";
  EXPECT_THAT(end.err, AllOf(HasSubstr("[0] rank 1 is gone"), HasSubstr("[2] rank 1 is gone"),
                             HasSubstr("tutti-run: rank 1 "), Not(HasSubstr("tutti-run: rank 0 "))));
}

TEST(TuttiRunTest, PrintsTheLastWordsOfARankBeforeItsEnd) {
  Launcher launcher(Shell(1, "echo the reason >&2; exit 4"));
  const std::string err = launcher.Wait().err;
  EXPECT_LT(err.find("[0] the reason"), err.find("tutti-run: rank 0 "));
}

struct StopSignal {
  int number;
  int exit_status;
};

class StopSignalTest : public testing::TestWithParam<StopSignal> {};

TEST_P(StopSignalTest, EndsTheRanksAndWhatTheyStarted) {
  Launcher launcher(Shell(3, "sleep 30 & echo ready $RANK; wait"));
  for (const char* rank : {"0", "1", "2"}) ASSERT_TRUE(launcher.Prints(absl::StrCat("ready ", rank)));
  launcher.Signal(GetParam().number);
  const Launcher::End end = launcher.Wait();
  EXPECT_EQ(end.exit_status, GetParam().exit_status);
  EXPECT_LT(end.elapsed, kSoon);
  EXPECT_THAT(end.err, Not(HasSubstr("tutti-run: rank"))) << "a rank that was told to end has not failed";
  EXPECT_THAT(launcher.Processes(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(All, StopSignalTest,
                         testing::Values(StopSignal{SIGINT, 130}, StopSignal{SIGTERM, 143}, StopSignal{SIGHUP, 129}));

TEST(TuttiRunTest, LetsARankCleanUpWhenStopped) {
  Launcher launcher(Shell(1, "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done"));
  ASSERT_TRUE(launcher.Prints("ready"));
  launcher.Signal(SIGINT);
  const Launcher::End end = launcher.Wait();
  EXPECT_EQ(end.exit_status, 130);
  EXPECT_THAT(end.out, HasSubstr("[0] saved\n"));
}

TEST(TuttiRunTest, KillsARankThatDoesNotObeyAfterTheGraceTime) {
  Launcher launcher(With({"--grace", "0.3"}, Shell(2, "trap '' TERM; echo ready $RANK; sleep 30")));
  ASSERT_TRUE(launcher.Prints("ready 0") && launcher.Prints("ready 1"));
  launcher.Signal(SIGTERM);
  const Launcher::End end = launcher.Wait();
  EXPECT_EQ(end.exit_status, 143);
  EXPECT_GE(end.elapsed, absl::Seconds(0.25));
  EXPECT_LT(end.elapsed, kSoon);
  EXPECT_THAT(launcher.Processes(), IsEmpty());
}

TEST(TuttiRunTest, KillsAtOnceAtTheSecondInterrupt) {
  Launcher launcher(With({"--grace", "25"}, Shell(2, "trap '' TERM; echo ready $RANK; sleep 30")));
  ASSERT_TRUE(launcher.Prints("ready 0") && launcher.Prints("ready 1"));
  launcher.Signal(SIGINT);
  ASSERT_FALSE(launcher.EndsWithin(absl::Seconds(0.2))) << "killed at the first";
  launcher.Signal(SIGINT);
  const Launcher::End end = launcher.Wait();
  EXPECT_EQ(end.exit_status, 130);
  EXPECT_LT(end.elapsed, kSoon);
  EXPECT_THAT(launcher.Processes(), IsEmpty());
}

TEST(TuttiRunTest, StopsARankThatIsStopped) {
  Launcher launcher(Shell(1, "echo ready; kill -STOP $$"));
  ASSERT_TRUE(launcher.Prints("ready"));
  launcher.Signal(SIGINT);
  const Launcher::End end = launcher.Wait();
  EXPECT_EQ(end.exit_status, 130);
  EXPECT_LT(end.elapsed, kSoon);
}

TEST(TuttiRunTest, ObeysAnInterruptThatItsParentIgnored) {
  Launcher launcher(Shell(1, "echo ready; sleep 30"), {.ignored_signals = {SIGINT}});
  ASSERT_TRUE(launcher.Prints("ready"));
  launcher.Signal(SIGINT);
  EXPECT_EQ(launcher.Wait().exit_status, 130);
}

TEST(TuttiRunTest, OutlivesItsTerminalUnderNohup) {
  Launcher launcher(Shell(1, "echo ready; sleep 30"), {.ignored_signals = {SIGHUP}});
  ASSERT_TRUE(launcher.Prints("ready"));
  launcher.Signal(SIGHUP);
  EXPECT_FALSE(launcher.EndsWithin(absl::Seconds(0.2)));
  launcher.Signal(SIGTERM);
  EXPECT_EQ(launcher.Wait().exit_status, 143);
}

TEST(TuttiRunTest, TakesTheRanksWithItWhenKilled) {
  Launcher launcher(Shell(2, "trap '' TERM HUP INT; sleep 30 & echo ready $RANK; wait"));
  ASSERT_TRUE(launcher.Prints("ready 0") && launcher.Prints("ready 1"));
  launcher.Signal(SIGKILL);
  EXPECT_EQ(launcher.Wait().exit_status, -SIGKILL);
  EXPECT_LT(launcher.WaitForAll(), kSoon);
  EXPECT_THAT(launcher.Processes(), IsEmpty());
}

TEST(TuttiRunTest, EndsTheRanksWhenNobodyReadsTheirOutput) {
  Launcher launcher(Shell(2, "echo ready; while echo more; do :; done"));
  ASSERT_TRUE(launcher.Prints("ready"));
  launcher.CloseOutput();
  const Launcher::End end = launcher.Wait();
  EXPECT_EQ(end.exit_status, 128 + SIGPIPE);
  EXPECT_LT(end.elapsed, 2 * kSoon);
}

TEST(TuttiRunTest, ObeysASignalWhileTheReaderOfItsOutputStands) {
  Launcher launcher(Shell(2, "echo ready; while echo more; do :; done"));
  ASSERT_TRUE(launcher.Prints("ready"));
  ASSERT_FALSE(launcher.EndsWithin(absl::Seconds(0.3)));  // long enough to fill every pipe
  launcher.Signal(SIGINT);
  EXPECT_TRUE(launcher.EndsWithin(kSoon));
  EXPECT_EQ(launcher.Wait().exit_status, 130);
}

TEST(TuttiRunTest, SaysWhichProgramIsNotFoundBeforeAnyRankRuns) {
  Launcher launcher({"-n", "3", "./no-such-program"});
  const Launcher::End end = launcher.Wait();
  EXPECT_EQ(end.exit_status, 127);
  EXPECT_THAT(end.err, HasSubstr("rank 0: cannot start ./no-such-program: No such file or directory"));
}

TEST(TuttiRunTest, SaysWhichProgramCannotBeExecuted) {
  Launcher launcher({"-n", "3", "/etc/passwd"});
  const Launcher::End end = launcher.Wait();
  EXPECT_EQ(end.exit_status, 126);
  EXPECT_THAT(end.err, HasSubstr("cannot start /etc/passwd: Permission denied"));
}

TEST(TuttiRunTest, RefusesWrongArguments) {
  Launcher launcher({"-n", "0", "true"});
  const Launcher::End end = launcher.Wait();
  EXPECT_EQ(end.exit_status, 2);
  EXPECT_THAT(end.err, HasSubstr("-n \"0\""));
}

TEST(TuttiRunTest, DividesTheProcessorsAmongTheRanks) {
  for (int ranks : {1, 2, 3, 8}) {
    Launcher launcher(Shell(ranks, "echo $OMP_NUM_THREADS"), {.unset = {"OMP_NUM_THREADS"}});
    const Launcher::End end = launcher.Wait();
    const int threads = std::max(1, UsableCpus() / ranks);
    EXPECT_THAT(SortedLines(end.out), Contains(absl::StrCat("[", ranks - 1, "] ", threads)));
    EXPECT_THAT(end.err, HasSubstr(absl::StrCat("OMP_NUM_THREADS=", threads, " (")));
  }
}

TEST(TuttiRunTest, CountsOnlyTheProcessorsItMayUse) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &allowed)) ++cpu;
  Launcher launcher(Shell(1, "echo $OMP_NUM_THREADS"),
                    {.wrapper = {"taskset", "-c", std::to_string(cpu)}, .unset = {"OMP_NUM_THREADS"}});
  const Launcher::End end = launcher.Wait();
  EXPECT_EQ(end.out, "[0] 1\n");
  EXPECT_THAT(end.err, HasSubstr("OMP_NUM_THREADS=1 (1 cpus / 1 ranks)"));
}

TEST(TuttiRunTest, KeepsAThreadCountThatIsSet) {
  for (const std::string value : {"7", "0", "", "abc"}) {
    Launcher launcher(Shell(1, "echo \"<$OMP_NUM_THREADS>\""), {.set = {"OMP_NUM_THREADS=" + value}});
    const Launcher::End end = launcher.Wait();
    EXPECT_EQ(end.out, absl::StrCat("[0] <", value, ">\n"));
    EXPECT_THAT(end.err, HasSubstr(absl::StrCat("OMP_NUM_THREADS=\"", value, "\" (was set, kept)")));
  }
}

}  // namespace
}  // namespace tutti
