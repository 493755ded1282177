#include "src/rendezvous/tribunal.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/rendezvous/fake_job.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using Type = MembershipMessage::Type;

constexpr absl::Duration kGrace = absl::Milliseconds(300);
constexpr absl::Duration kLimit = absl::Seconds(60);

OperationNote Note(uint32_t sequence, const std::string& text, bool done = false) {
  return {
      .sequence = sequence, .text = text, .details = "", .fingerprint = std::hash<std::string>()(text), .done = done};
}

MembershipMessage Heartbeat(uint32_t sequence, uint64_t history, bool done = true) {
  return {.type = Type::kHeartbeat,
          .latest = Note(sequence, "all-reduce of 4 float32, sum", done),
          .recent = {{sequence, history}}};
}

MembershipMessage Report(Type type, uint32_t sequence, std::string text = "") {
  return {.type = type, .text = std::move(text), .sequence = sequence};
}

MembershipMessage PeerLost(int peer) { return {.type = Type::kPeerLost, .text = "connection reset", .peer = peer}; }

MembershipMessage Called(uint32_t sequence, std::string text) {
  return {
      .type = Type::kAnswer, .sequence = sequence, .operation = Note(sequence, text), .latest = Note(sequence, text)};
}

MembershipMessage NotCalled(uint32_t sequence, uint32_t latest) {
  return {.type = Type::kAnswer, .sequence = sequence, .latest = Note(latest, "barrier", /*done=*/true)};
}

// A tribunal of four ranks, with the time moved by hand.
class TribunalTest : public testing::Test {
 protected:
  void Hear(int rank, const MembershipMessage& message) { tribunal_.Hear(rank, message, now_); }

  // In the steps that the tribunal asks for; the ranks in `alive` send heartbeats meanwhile.
  void Pass(absl::Duration time, const std::vector<int>& alive = {}) {
    const absl::Time end = now_ + time;
    while (tribunal_.next() < end) {
      now_ = tribunal_.next();
      for (int rank : alive) Hear(rank, {.type = Type::kHeartbeat});
      tribunal_.Advance(now_);
    }
    now_ = end;
    tribunal_.Advance(now_);
  }

  std::string Verdict(absl::StatusCode code) {
    EXPECT_EQ(tribunal_.verdict().code(), code) << tribunal_.verdict();
    return std::string(tribunal_.verdict().message());
  }

  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1000);
  Tribunal tribunal_{
      FakeMembers(4), {.heartbeat_limit = kLimit, .grace = kGrace, .straggler_warning = absl::Seconds(30)}, now_};
};

TEST_F(TribunalTest, HasNoVerdictWhileAllIsWell) {
  for (uint32_t sequence = 1; sequence < 20; ++sequence) {
    for (int rank = 0; rank < 4; ++rank) Hear(rank, Heartbeat(sequence, 1000 + sequence));
    Pass(absl::Seconds(1));
  }
  EXPECT_EQ(tribunal_.verdict(), absl::OkStatus());
  EXPECT_EQ(tribunal_.query(), 0u);
}

TEST_F(TribunalTest, PronouncesDeathAtOnce) {
  Hear(1, Heartbeat(17, 1, /*done=*/false));
  tribunal_.Lose(1, "connection reset by peer", now_);
  EXPECT_THAT(Verdict(absl::StatusCode::kUnavailable),
              AllOf(HasSubstr("rank 1 (host-1, pid 101) died"), HasSubstr("without a goodbye"),
                    HasSubstr("connection reset by peer"), HasSubstr("last operation 17 (all-reduce of 4 float32")));
}

TEST_F(TribunalTest, KeepsToTheFirstVerdict) {
  tribunal_.Lose(1, "", now_);
  tribunal_.Lose(2, "", now_);
  Hear(3, Report(Type::kAbort, 0, "stop"));
  EXPECT_THAT(Verdict(absl::StatusCode::kUnavailable), HasSubstr("rank 1"));
  EXPECT_EQ(tribunal_.next(), absl::InfiniteFuture());
}

TEST_F(TribunalTest, LetsRanksLeave) {
  for (int rank = 0; rank < 4; ++rank) {
    Hear(rank, {.type = Type::kLeave});
    tribunal_.Lose(rank, "", now_);
  }
  Pass(10 * kLimit);
  EXPECT_EQ(tribunal_.verdict(), absl::OkStatus());
}

TEST_F(TribunalTest, BlamesTheDeadAndNotWhoReportsThem) {
  Hear(2, PeerLost(1));
  EXPECT_EQ(tribunal_.verdict(), absl::OkStatus()) << "its own connection may end yet";
  Pass(kGrace / 2);
  tribunal_.Lose(1, "", now_);
  EXPECT_THAT(Verdict(absl::StatusCode::kUnavailable), HasSubstr("rank 1 (host-1, pid 101) died"));
}

TEST_F(TribunalTest, BlamesTheDeadEvenIfTheReporterExitsFirst) {
  Hear(2, PeerLost(1));
  tribunal_.Lose(2, "", now_);
  tribunal_.Lose(1, "", now_);
  EXPECT_THAT(Verdict(absl::StatusCode::kUnavailable), HasSubstr("rank 1 (host-1, pid 101) died"));
}

TEST_F(TribunalTest, TellsUnreachableFromDead) {
  Hear(2, PeerLost(1));
  Pass(kGrace);
  EXPECT_THAT(Verdict(absl::StatusCode::kUnavailable),
              AllOf(HasSubstr("rank 2 (host-2, pid 102) cannot reach rank 1 (host-1, pid 101)"), HasSubstr("is alive"),
                    HasSubstr("connection reset")));
}

TEST_F(TribunalTest, SaysThatAnUnreachableRankIsSilent) {
  Pass(absl::Seconds(20), {0, 2, 3});
  Hear(2, PeerLost(1));
  Pass(kGrace);
  EXPECT_THAT(Verdict(absl::StatusCode::kUnavailable),
              AllOf(HasSubstr("cannot reach rank 1"), HasSubstr("silent for 20.3 s")));
}

TEST_F(TribunalTest, TellsWhoNeedsARankThatHasLeft) {
  Hear(2, Heartbeat(6, 1));
  Hear(2, {.type = Type::kLeave});
  Hear(1, PeerLost(2));
  EXPECT_THAT(Verdict(absl::StatusCode::kUnavailable),
              AllOf(HasSubstr("rank 2 (host-2, pid 102) has left the group"), HasSubstr("rank 1 (host-1, pid 101)"),
                    HasSubstr("last operation 6")));
}

TEST_F(TribunalTest, TellsSoAlsoIfTheReportComesFirst) {
  Hear(1, PeerLost(2));
  Hear(2, {.type = Type::kLeave});
  EXPECT_THAT(Verdict(absl::StatusCode::kUnavailable), HasSubstr("rank 2 (host-2, pid 102) has left the group"));
}

TEST_F(TribunalTest, ForgetsTheReportOfARankThatLeaves) {
  Hear(1, PeerLost(2));
  Hear(1, {.type = Type::kLeave});
  Pass(absl::Seconds(1));
  EXPECT_EQ(tribunal_.verdict(), absl::OkStatus());
}

TEST_F(TribunalTest, PassesAnAbortOn) {
  Hear(3, Report(Type::kAbort, 0, "loss is NaN"));
  EXPECT_EQ(Verdict(absl::StatusCode::kAborted), "aborted by rank 3 (host-3, pid 103): loss is NaN");
}

TEST_F(TribunalTest, PrefersAnAbortToTheLossThatFollowsFromIt) {
  Hear(1, PeerLost(3));
  Hear(3, Report(Type::kAbort, 0, "loss is NaN"));
  EXPECT_THAT(Verdict(absl::StatusCode::kAborted), HasSubstr("aborted by rank 3"));
}

TEST_F(TribunalTest, GroupsTheRanksByWhatTheyCalled) {
  Hear(2, Report(Type::kMismatch, 7));
  EXPECT_EQ(tribunal_.query(), 7u);
  Hear(0, Called(7, "all-reduce of 409600 float32, sum"));
  for (int rank = 1; rank < 4; ++rank) {
    EXPECT_EQ(tribunal_.verdict(), absl::OkStatus());
    Hear(rank, Called(7, "all-reduce of 409598 float32, sum"));
  }
  EXPECT_EQ(Verdict(absl::StatusCode::kFailedPrecondition),
            "mismatch at operation 7: rank 0: all-reduce of 409600 float32, sum; "
            "ranks 1-3: all-reduce of 409598 float32, sum");
}

TEST_F(TribunalTest, WaitsForAnswersNoLongerThanTheGrace) {
  Hear(2, Report(Type::kMismatch, 7));
  Hear(0, Called(7, "barrier"));
  Hear(1, Called(7, "all-gather of 4 float32"));
  Hear(2, NotCalled(7, 6));
  Pass(kGrace);
  EXPECT_EQ(Verdict(absl::StatusCode::kFailedPrecondition),
            "mismatch at operation 7: rank 0: barrier; rank 1: all-gather of 4 float32; "
            "rank 2: has not called it, last operation 6 (barrier, done); rank 3: does not answer");
}

TEST_F(TribunalTest, ShowsDetailsWhereTheTextHidesTheDifference) {
  Hear(0, Report(Type::kMismatch, 7));
  for (int rank = 0; rank < 4; ++rank) {
    MembershipMessage answer = Called(7, "all-reduce of 4 float32, sum");
    answer.operation->details = absl::StrCat("algorithm ", rank == 3 ? "direct" : "gather", ", segments of 64 bytes");
    answer.operation->fingerprint = rank == 3 ? 1 : 2;
    Hear(rank, answer);
  }
  EXPECT_EQ(Verdict(absl::StatusCode::kFailedPrecondition),
            "mismatch at operation 7: ranks 0-2: all-reduce of 4 float32, sum [algorithm gather]; "
            "rank 3: all-reduce of 4 float32, sum [algorithm direct]");
}

TEST_F(TribunalTest, NamesADifferenceInTheSegmentsAlone) {
  Hear(0, Report(Type::kMismatch, 7));
  for (int rank = 0; rank < 4; ++rank) {
    MembershipMessage answer = Called(7, "all-reduce of 4 float32, sum");
    answer.operation->details = absl::StrCat("algorithm direct, segments of ", rank == 0 ? 64 : 128, " bytes");
    answer.operation->fingerprint = rank == 0 ? 1 : 2;
    Hear(rank, answer);
  }
  EXPECT_EQ(Verdict(absl::StatusCode::kFailedPrecondition),
            "mismatch at operation 7: rank 0: all-reduce of 4 float32, sum [segments of 64 bytes]; "
            "ranks 1-3: all-reduce of 4 float32, sum [segments of 128 bytes]");
}

TEST_F(TribunalTest, FindsAMismatchInTheHistories) {
  Hear(0, Heartbeat(5, 50));
  Hear(1, Heartbeat(5, 50));
  EXPECT_EQ(tribunal_.query(), 0u);
  Hear(2, Heartbeat(5, 51));
  EXPECT_EQ(tribunal_.query(), 5u);
  for (int rank = 0; rank < 4; ++rank) Hear(rank, Called(5, rank == 2 ? "barrier" : "all-gather of 1 int8"));
  EXPECT_EQ(Verdict(absl::StatusCode::kFailedPrecondition),
            "mismatch at operation 5: ranks 0, 1, 3: all-gather of 1 int8; rank 2: barrier");
}

TEST_F(TribunalTest, AdmitsThatTheDifferenceIsOffTheRecord) {
  Hear(0, Heartbeat(500, 50));
  Hear(1, Heartbeat(500, 51));
  for (int rank = 0; rank < 4; ++rank) Hear(rank, Called(500, "barrier"));
  EXPECT_THAT(Verdict(absl::StatusCode::kFailedPrecondition),
              AllOf(HasSubstr("ranks 0-3: barrier"), HasSubstr("an operation before it differed")));
}

TEST_F(TribunalTest, StaysWithAMismatchWhenProgramsExitOnIt) {
  Hear(2, Report(Type::kMismatch, 7));
  Hear(2, Called(7, "barrier"));
  tribunal_.Lose(2, "", now_);
  Hear(1, PeerLost(2));
  for (int rank : {0, 1, 3}) Hear(rank, Called(7, "all-gather of 4 float32"));
  EXPECT_EQ(Verdict(absl::StatusCode::kFailedPrecondition),
            "mismatch at operation 7: ranks 0, 1, 3: all-gather of 4 float32; rank 2: barrier");
}

TEST_F(TribunalTest, PrefersAMismatchToTheLossThatFollowsFromIt) {
  Hear(1, PeerLost(2));
  Hear(2, Report(Type::kMismatch, 7));
  Pass(kGrace);
  EXPECT_THAT(Verdict(absl::StatusCode::kFailedPrecondition), HasSubstr("mismatch at operation 7"));
}

TEST_F(TribunalTest, NamesWhoIsLate) {
  Hear(0, Report(Type::kTimeout, 7, "all-reduce (sequence 7) timed out after 30 s"));
  EXPECT_EQ(tribunal_.query(), 7u);
  for (int rank : {0, 1, 3}) Hear(rank, Called(7, "all-reduce of 4 float32, sum"));
  Hear(2, NotCalled(7, 6));
  EXPECT_EQ(Verdict(absl::StatusCode::kDeadlineExceeded),
            "rank 0 (host-0, pid 100): all-reduce (sequence 7) timed out after 30 s: "
            "rank 2 (host-2, pid 102) has not arrived: alive, last operation 6 (barrier, done)");
}

TEST_F(TribunalTest, NamesWhoIsSilent) {
  Hear(2, Heartbeat(5, 1));
  Pass(absl::Seconds(9), {0, 1, 3});
  Hear(0, Report(Type::kTimeout, 7, "all-reduce timed out"));
  for (int rank : {0, 1, 3}) Hear(rank, Called(7, "all-reduce of 4 float32, sum"));
  Pass(kGrace, {0, 1, 3});
  EXPECT_THAT(Verdict(absl::StatusCode::kDeadlineExceeded),
              AllOf(HasSubstr("rank 2 (host-2, pid 102) does not answer: silent for 9.3 s"),
                    HasSubstr("last operation 5"), Not(HasSubstr("rank 1 ")), Not(HasSubstr("rank 3 "))));
}

TEST_F(TribunalTest, SaysSoWhenAllHaveArrived) {
  Hear(0, Report(Type::kTimeout, 7, "all-reduce timed out"));
  for (int rank = 0; rank < 4; ++rank) {
    MembershipMessage answer = Called(7, "all-reduce of 4 float32, sum");
    answer.operation->done = rank == 2;
    Hear(rank, answer);
  }
  EXPECT_THAT(Verdict(absl::StatusCode::kDeadlineExceeded),
              HasSubstr("all ranks have arrived, and it is not done on ranks 0, 1, 3"));
}

TEST_F(TribunalTest, TakesATimeoutForAMismatchWhereItIsOne) {
  Hear(0, Report(Type::kTimeout, 7, "all-reduce timed out"));
  for (int rank = 0; rank < 4; ++rank) Hear(rank, Called(7, rank == 0 ? "all-reduce of 4 float32, sum" : "barrier"));
  EXPECT_THAT(Verdict(absl::StatusCode::kFailedPrecondition), HasSubstr("ranks 1-3: barrier"));
}

TEST_F(TribunalTest, BlamesTheDeadWhenOthersTimeOut) {
  Hear(0, Report(Type::kTimeout, 7, "all-reduce timed out"));
  tribunal_.Lose(2, "", now_);
  EXPECT_THAT(Verdict(absl::StatusCode::kUnavailable), HasSubstr("rank 2 (host-2, pid 102) died"));
}

TEST_F(TribunalTest, BlamesNobodyForATimeoutOfASendWhenAllAreAlive) {
  Hear(0, Report(Type::kTimeout, 0, "recv from rank 3 timed out"));
  EXPECT_EQ(tribunal_.query(), 0u);
  Pass(kGrace);
  EXPECT_EQ(Verdict(absl::StatusCode::kDeadlineExceeded),
            "rank 0 (host-0, pid 100): recv from rank 3 timed out: all ranks are alive");
}

TEST_F(TribunalTest, GivesUpARankThatIsSilentTooLong) {
  Pass(kLimit, {0, 1, 3});
  EXPECT_EQ(tribunal_.verdict(), absl::OkStatus());
  Pass(kLimit / 2, {0, 1, 3});
  EXPECT_THAT(Verdict(absl::StatusCode::kUnavailable),
              AllOf(HasSubstr("rank 2 (host-2, pid 102)"), HasSubstr("silent for ")));
}

TEST_F(TribunalTest, DoesNotTakeItsOwnSleepForSilence) {
  now_ += 10 * kLimit;  // stopped, and resumed
  tribunal_.Advance(now_);
  EXPECT_EQ(tribunal_.verdict(), absl::OkStatus());
  Hear(0, Report(Type::kMismatch, 3));
  now_ += 10 * kLimit;
  tribunal_.Advance(now_);
  EXPECT_EQ(tribunal_.verdict(), absl::OkStatus()) << "the answers may be waiting";
  for (int rank = 0; rank < 4; ++rank) Hear(rank, Called(3, rank == 0 ? "barrier" : "all-gather of 1 int8"));
  EXPECT_THAT(Verdict(absl::StatusCode::kFailedPrecondition), HasSubstr("mismatch at operation 3"));
}

// Ranks 0 and 500 have called operation 7; the others are at 5 or 6.
std::vector<RankView> ManyRanks() {
  std::vector<RankView> ranks(1000);
  for (int rank = 0; rank < 1000; ++rank) {
    RankView& view = ranks[static_cast<size_t>(rank)];
    view.identity = FakeIdentity(rank, 1000);
    view.answered = true;
    view.latest = Note(rank < 900 ? 6 : 5, "barrier", /*done=*/true);
    if (rank % 500 == 0) view.operation = view.latest = Note(7, "barrier");
  }
  return ranks;
}

TEST(VerdictText, NamesAllThatAreLateOfManyRanks) {
  const std::vector<RankView> ranks = ManyRanks();
  const absl::Status verdict = TimeoutVerdict(ranks, ranks[0], 7, "barrier timed out", absl::UnixEpoch());
  EXPECT_LT(verdict.message().size(), 2000u);
  EXPECT_THAT(std::string(verdict.message()),
              AllOf(HasSubstr("rank 1 (host-1, pid 101) has not arrived: alive, last operation 6"),
                    HasSubstr("rank 8 (host-8, pid 108) has not arrived"),
                    HasSubstr("; ranks 9-499, 501-899: has not arrived: alive, last operation 6 (barrier, done)"),
                    HasSubstr("; ranks 900-999: has not arrived: alive, last operation 5")));
}

TEST(VerdictText, IsBoundedEvenIfNoTwoRanksAreAtTheSamePlace) {
  std::vector<RankView> ranks = ManyRanks();
  for (uint32_t rank = 1; rank < 1000; rank += 2) ranks[rank].latest = Note(rank, "barrier");
  for (RankView& rank : ranks) rank.operation.reset();
  const absl::Status verdict = TimeoutVerdict(ranks, ranks[0], 2000, "barrier timed out", absl::UnixEpoch());
  EXPECT_LT(verdict.message().size(), 3000u);
  EXPECT_THAT(std::string(verdict.message()), HasSubstr(" more"));
}

class StragglerTest : public TribunalTest {
 protected:
  static constexpr absl::Duration kPatience = absl::Seconds(30);

  // Heartbeats for a while: rank r has called operation at[r], and it is done if that is the lowest of all.
  void Beat(absl::Duration time, const std::vector<uint32_t>& at) {
    const uint32_t behind = *std::min_element(at.begin(), at.end());
    for (const absl::Time end = now_ + time; now_ < end; now_ += absl::Milliseconds(250)) {
      for (int rank = 0; rank < 4; ++rank) {
        const uint32_t sequence = at[static_cast<size_t>(rank)];
        Hear(rank, Heartbeat(sequence, sequence, /*done=*/sequence == behind));
      }
      for (std::string& warning : tribunal_.TakeWarnings()) warnings_.push_back(std::move(warning));
    }
  }

  std::vector<std::string> warnings_;
};

TEST_F(StragglerTest, AreNamedOncePerOperation) {
  Beat(kPatience - absl::Seconds(1), {7, 6, 7, 5});
  EXPECT_THAT(warnings_, IsEmpty());
  Beat(3 * kPatience, {7, 6, 7, 5});
  ASSERT_THAT(warnings_, SizeIs(1));
  EXPECT_THAT(warnings_[0], AllOf(HasSubstr("operation 6"), HasSubstr("called by ranks 0-2"), HasSubstr("since 3"),
                                  HasSubstr("rank 3 (host-3, pid 103) has not arrived: alive, last operation 5")));
  Beat(2 * kPatience, {7, 6, 7, 6});
  ASSERT_THAT(warnings_, SizeIs(2));
  EXPECT_THAT(warnings_[1],
              AllOf(HasSubstr("operation 7 (all-reduce of 4 float32, sum)"), HasSubstr("called by ranks 0, 2"),
                    HasSubstr("rank 1 (host-1"), HasSubstr("rank 3 (host-3")));
  EXPECT_EQ(tribunal_.verdict(), absl::OkStatus());
}

TEST_F(StragglerTest, AreNoneWhileOperationsEndInTime) {
  for (uint32_t sequence = 1; sequence < 8; ++sequence) {
    Beat(kPatience / 2, {sequence + 1, sequence, sequence, sequence});
  }
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(StragglerTest, AreNoneWhileNobodyWaits) {
  for (int i = 0; i < 300; ++i) {
    now_ += absl::Seconds(1);
    for (int rank = 0; rank < 4; ++rank) Hear(rank, Heartbeat(rank == 0 ? 2 : 1, rank == 0 ? 2 : 1));
  }
  EXPECT_THAT(tribunal_.TakeWarnings(), IsEmpty()) << "all of them are done, as that of a broadcast's root";
}

TEST(RankList, IsShort) {
  EXPECT_EQ(RankList({}), "no ranks");
  EXPECT_EQ(RankList({4}), "rank 4");
  EXPECT_EQ(RankList({0, 1}), "ranks 0, 1");
  EXPECT_EQ(RankList({0, 1, 2, 5, 7, 8, 10, 11, 12, 13}), "ranks 0-2, 5, 7, 8, 10-13");
  std::vector<int> even;
  for (int rank = 0; rank < 2000; rank += 2) even.push_back(rank);
  EXPECT_THAT(RankList(even), AllOf(HasSubstr("ranks 0, 2, 4,"), HasSubstr(", 62 and 968 more")));
}

}  // namespace
}  // namespace tutti
