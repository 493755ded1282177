// A group that fails: every wait ends, with the culprit's name, and later calls fail at once with the first error.
//
// Without a control plane, so each rank's own view is its verdict; tests/process has the verdicts that all ranks share.

#include <numeric>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/group/host_group.h"
#include "tests/support/groups.h"
#include "tutti/process_group.h"

namespace tutti {
namespace {

using testing::HasSubstr;

class GroupFailure : public testing::TestWithParam<Wire> {};

TEST_P(GroupFailure, MismatchNamesBothCalls) {
  TestGroups groups = MakeGroups(GetParam(), 2, {.timeout = absl::Seconds(10)});
  std::vector<absl::Status> statuses(2);
  OnEachRank(2, [&](int rank) {
    std::vector<float> data(rank == 0 ? 100 : 200);
    statuses[static_cast<size_t>(rank)] = groups[rank].AllReduce(absl::MakeSpan(data)).Wait();
  });
  // Whoever notices first closes its sockets; the other sees the mismatch or the closing.
  EXPECT_TRUE(statuses[0].code() == absl::StatusCode::kFailedPrecondition ||
              statuses[1].code() == absl::StatusCode::kFailedPrecondition)
      << statuses[0] << statuses[1];
  for (const absl::Status& status : statuses) EXPECT_FALSE(status.ok());
}

TEST_P(GroupFailure, AnotherCollectiveIsAMismatch) {
  TestGroups groups = MakeGroups(GetParam(), 2, {.timeout = absl::Seconds(10)});
  std::vector<absl::Status> statuses(2);
  OnEachRank(2, [&](int rank) {
    std::vector<float> data(8);
    statuses[static_cast<size_t>(rank)] =
        rank == 0 ? groups[rank].AllReduce(absl::MakeSpan(data)).Wait()
                  : groups[rank].AllGather(absl::MakeConstSpan(data).last(4), absl::MakeSpan(data)).Wait();
  });
  for (const absl::Status& status : statuses) EXPECT_FALSE(status.ok());
}

TEST_P(GroupFailure, TimeOutNamesTheOperation) {
  TestGroups groups = MakeGroups(GetParam(), 2);
  std::vector<float> data(1000);
  const absl::Time start = absl::Now();
  const absl::Status status = groups[0].AllReduce(absl::MakeSpan(data), {.timeout = absl::Milliseconds(200)}).Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("all-reduce of 1000 float32"));
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
  // The first error is final.
  EXPECT_EQ(groups[0].Barrier().Wait(), status);
  EXPECT_EQ(groups[0].status(), status);
}

TEST_P(GroupFailure, UnwaitedOperationsMeetTheirDeadlineToo) {
  TestGroups groups = MakeGroups(GetParam(), 2);
  std::vector<float> data(1000);
  Work work = groups[0].AllReduce(absl::MakeSpan(data), {.timeout = absl::Milliseconds(50)});
  const absl::Time limit = absl::Now() + absl::Seconds(10);
  while (!work.Done() && absl::Now() < limit) {
  }
  EXPECT_TRUE(work.Done());
  EXPECT_EQ(work.Wait().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_P(GroupFailure, AbortEndsWaitsInOtherThreads) {
  TestGroups groups = MakeGroups(GetParam(), 2);
  OnEachRank(3, [&](int thread) {
    if (thread == 2) return groups[0].Abort(absl::InternalError("loss is NaN"));
    std::vector<float> data(100);
    const absl::Status status = groups[0].AllReduce(absl::MakeSpan(data)).Wait();
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    EXPECT_THAT(std::string(status.message()), HasSubstr("loss is NaN"));
  });
}

TEST_P(GroupFailure, AGroupThatEndsWhileAnotherWaits) {
  TestGroups groups = MakeGroups(GetParam(), 3, {.timeout = absl::Seconds(20)});
  OnEachRank(3, [&](int rank) {
    std::vector<float> data(100000, 1.0f);
    ASSERT_EQ(groups[rank].AllReduce(absl::MakeSpan(data)).Wait(), absl::OkStatus());
    if (rank == 2) {
      groups.ranks[2].reset();
      return;
    }
    const absl::Status status = groups[rank].AllReduce(absl::MakeSpan(data)).Wait();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  });
}

TEST_P(GroupFailure, DestructionCancelsWhatIsInFlight) {
  TestGroups groups = MakeGroups(GetParam(), 2);
  std::vector<float> data(100);
  Work work = groups[0].AllReduce(absl::MakeSpan(data));
  groups.ranks[0].reset();
  EXPECT_TRUE(work.Done());
  EXPECT_EQ(work.Wait().code(), absl::StatusCode::kCancelled);
}

std::string WireName(const testing::TestParamInfo<Wire>& wire) { return Name(wire.param); }

INSTANTIATE_TEST_SUITE_P(Wires, GroupFailure, testing::Values(Wire::kSim, Wire::kTcp, Wire::kShm), WireName);

TEST(VerdictRelay, KeepsAnEarlyVerdictForTheEngine) {
  HostGroupParts parts;
  parts.endpoint = std::move(MakeSimEndpoints(1, 1)[0]);
  std::shared_ptr<VerdictRelay> relay = parts.relay;
  relay->Pronounce(absl::UnavailableError("rank 1 died"));
  relay->Pronounce(absl::UnavailableError("rank 2 died"));
  std::unique_ptr<ProcessGroup> group = MakeHostGroup(std::move(parts));
  EXPECT_EQ(group->Barrier().Wait(), absl::UnavailableError("rank 1 died"));
}

}  // namespace
}  // namespace tutti
