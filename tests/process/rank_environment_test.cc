#include "tools/tutti_run/rank_environment.h"

#include <array>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tutti::launch {
namespace {

using ::testing::Contains;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

JobShape TwoNodesOfFour() {
  return {.local_ranks = 4,
          .nodes = 2,
          .node_rank = 1,
          .master_host = "10.0.0.1",
          .master_port = 29500,
          .job_id = "job",
          .cpus = 10};
}

TEST(RankEnvironmentTest, TellsARankWhoItIs) {
  EXPECT_THAT(
      RankEnvironment({}, TwoNodesOfFour(), 2, -1),
      UnorderedElementsAre("RANK=6", "WORLD_SIZE=8", "LOCAL_RANK=2", "LOCAL_WORLD_SIZE=4", "MASTER_ADDR=10.0.0.1",
                           "MASTER_PORT=29500", "TUTTI_JOB_ID=job", "OMP_NUM_THREADS=2"));
}

TEST(RankEnvironmentTest, NamesTheMastersSocketWhereThereIsOne) {
  EXPECT_THAT(RankEnvironment({}, TwoNodesOfFour(), 0, 7), Contains("TUTTI_STORE_FD=7"));
  EXPECT_THAT(RankEnvironment({"TUTTI_STORE_FD=3"}, TwoNodesOfFour(), 0, -1),
              Not(Contains(StartsWith("TUTTI_STORE_FD="))));
}

TEST(RankEnvironmentTest, KeepsOtherVariablesAsTheyAre) {
  const Variables kept = {"PATH=/bin", "EMPTY=", "RANKS=9", "SLURM_JOB_ID=5", "odd", "X=a=b"};
  const Variables result = RankEnvironment(kept, TwoNodesOfFour(), 0, -1);
  for (const std::string& variable : kept) EXPECT_THAT(result, Contains(variable));
}

TEST(RankEnvironmentTest, ReplacesWhatAnotherLauncherSaid) {
  EXPECT_THAT(
      RankEnvironment({"RANK=9", "MASTER_PORT=1", "OMPI_COMM_WORLD_RANK=9", "PMI_RANK=9", "PMIX_RANK=9",
                       "SLURM_PROCID=9", "SLURM_NTASKS=9", "SLURM_LOCALID=9"},
                      TwoNodesOfFour(), 2, -1),
      UnorderedElementsAre("RANK=6", "WORLD_SIZE=8", "LOCAL_RANK=2", "LOCAL_WORLD_SIZE=4", "MASTER_ADDR=10.0.0.1",
                           "MASTER_PORT=29500", "TUTTI_JOB_ID=job", "OMP_NUM_THREADS=2"));
}

TEST(RankEnvironmentTest, DividesTheProcessorsAndNeverToZero) {
  JobShape shape = TwoNodesOfFour();
  for (const auto& [cpus, ranks, threads] :
       {std::array{2, 1, 2}, {2, 2, 1}, {2, 3, 1}, {2, 8, 1}, {1, 1, 1}, {1, 8, 1}, {96, 8, 12}, {7, 2, 3}}) {
    shape.cpus = cpus;
    shape.local_ranks = ranks;
    EXPECT_EQ(Find(RankEnvironment({}, shape, 0, -1), "OMP_NUM_THREADS"), std::to_string(threads))
        << cpus << " cpus, " << ranks << " ranks";
  }
}

TEST(RankEnvironmentTest, KeepsTheUsersThreadCountWhateverItSays) {
  for (const std::string value : {"7", "0", "", "abc"}) {
    EXPECT_EQ(Find(RankEnvironment({"OMP_NUM_THREADS=" + value}, TwoNodesOfFour(), 0, -1), "OMP_NUM_THREADS"), value);
  }
}

TEST(RankEnvironmentTest, DescribesTheJobInOneLine) {
  JobShape shape = TwoNodesOfFour();
  EXPECT_EQ(DescribeJob({}, shape),
            "ranks 4 to 7 of 8 (node 1 of 2), master 10.0.0.1:29500, OMP_NUM_THREADS=2 (10 cpus / 4 ranks)");
  shape.nodes = 1;
  shape.node_rank = 0;
  shape.master_host = "::1";
  EXPECT_EQ(DescribeJob({"OMP_NUM_THREADS=a\n"}, shape),
            "4 ranks, master [::1]:29500, OMP_NUM_THREADS=\"a\\n\" (was set, kept)");
}

}  // namespace
}  // namespace tutti::launch
