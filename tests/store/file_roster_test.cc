#include "src/store/file_roster.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/store/store_test_util.h"

namespace tutti {
namespace {

using Life = Opener::Life;
using Decision = Admission::Decision;
using enum absl::StatusCode;

Opener OpenerOf(int rank, Life life, std::string job_id = "test-job") {
  Opener opener{.identity = TestIdentity(rank, 4, std::move(job_id)), .opened = absl::FromUnixSeconds(0), .life = life};
  opener.identity.hostname = "host-a";
  opener.identity.pid = 1000 + rank;
  return opener;
}

const Identity kSelf = TestIdentity(1, 4);

void ExpectDecision(const std::vector<Opener>& openers, Decision decision) {
  EXPECT_EQ(Admit(kSelf, openers).decision, decision);
}

template <typename... Texts>
void ExpectRefusal(const std::vector<Opener>& openers, absl::StatusCode code, const Texts&... texts) {
  const Admission admission = Admit(kSelf, openers);
  EXPECT_EQ(admission.decision, Decision::kRefuse);
  EXPECT_THAT(admission.why, Fails(code, texts...));
}

TEST(FileRosterTest, ANewFileIsTaken) { ExpectDecision({}, Decision::kTakeOver); }

TEST(FileRosterTest, AnAssemblingJobIsJoined) {
  ExpectDecision({OpenerOf(0, Life::kAlive)}, Decision::kJoin);
  ExpectDecision({OpenerOf(0, Life::kAlive), OpenerOf(2, Life::kAlive)}, Decision::kJoin);
}

TEST(FileRosterTest, AJobOfWhichNobodyIsLeftIsTakenOver) {
  ExpectDecision({OpenerOf(0, Life::kDead), OpenerOf(1, Life::kDead)}, Decision::kTakeOver);
  ExpectDecision({OpenerOf(0, Life::kClosed), OpenerOf(1, Life::kClosed)}, Decision::kTakeOver);
  ExpectDecision({OpenerOf(0, Life::kClosed, "another"), OpenerOf(1, Life::kDead, "another")}, Decision::kTakeOver);
}

TEST(FileRosterTest, AJobThatIsDeadInAllLikelihoodIsRefusedByName) {
  ExpectRefusal({OpenerOf(0, Life::kClosed), OpenerOf(3, Life::kGone)}, kFailedPrecondition, "holds a dead job",
                "rank 3 (host-a, pid 1003)", "job \"test-job\"", "1970-01-01", "remove the file or use another path");
}

TEST(FileRosterTest, AnotherLivingJobIsRefusedByName) {
  ExpectRefusal({OpenerOf(0, Life::kAlive, "another")}, kFailedPrecondition, "in use by rank 0 (host-a, pid 1000)",
                "\"another\"", "\"test-job\"", "use another path");
}

TEST(FileRosterTest, ATakenRankIsRefusedByItsHolder) {
  ExpectRefusal({OpenerOf(0, Life::kDead), OpenerOf(1, Life::kAlive)}, kAlreadyExists,
                "rank 1 is already taken by rank 1 (host-a, pid 1001)");
}

TEST(FileRosterTest, AJobWithADeadMemberIsNotJoined) {
  for (const Life life : {Life::kDead, Life::kGone}) {
    ExpectRefusal({OpenerOf(0, Life::kAlive), OpenerOf(2, life)}, kFailedPrecondition, "rank 2 (host-a, pid 1002)",
                  "is dead", "rank 0 (host-a, pid 1000) is still there");
  }
}

TEST(FileRosterTest, AnEndingJobIsWaitedFor) {
  const Admission admission = Admit(kSelf, {OpenerOf(0, Life::kAlive), OpenerOf(1, Life::kClosed)});
  EXPECT_EQ(admission.decision, Decision::kWait);
  EXPECT_THAT(admission.why, Fails(kFailedPrecondition, "rank 1 (host-a, pid 1001)", "has closed it",
                                   "rank 0 (host-a, pid 1000) is still there"));
}

}  // namespace
}  // namespace tutti
