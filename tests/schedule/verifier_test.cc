// Does the verifier notice? Good schedules are broken in one place each.

#include "src/schedule/verifier.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/schedule/schedule_builder.h"
#include "tests/schedule/faults.h"
#include "tests/schedule/schedules.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Edge = std::pair<uint32_t, uint32_t>;  // before, after

std::vector<Edge> EdgesOf(const Schedule& schedule) {
  std::vector<Edge> edges;
  for (uint32_t i = 0; i < schedule.steps.size(); ++i) {
    for (const uint32_t successor : schedule.SuccessorsOf(schedule.steps[i])) edges.emplace_back(i, successor);
  }
  return edges;
}

void SetEdges(Schedule& schedule, std::vector<Edge> edges) {
  std::sort(edges.begin(), edges.end());
  schedule.successors.clear();
  for (Step& step : schedule.steps) step.successor_count = step.dependencies = 0;
  for (uint32_t i = 0; i < schedule.steps.size(); ++i) {
    schedule.steps[i].first_successor = static_cast<uint32_t>(schedule.successors.size());
    for (const auto& [before, after] : edges) {
      if (before != i) continue;
      schedule.successors.push_back(after);
      ++schedule.steps[i].successor_count;
      if (after < schedule.steps.size()) ++schedule.steps[after].dependencies;
    }
  }
}

void RemoveEdge(Schedule& schedule, Edge edge) {
  std::vector<Edge> edges = EdgesOf(schedule);
  edges.erase(std::find(edges.begin(), edges.end(), edge));
  SetEdges(schedule, std::move(edges));
}

void AddEdge(Schedule& schedule, Edge edge) {
  std::vector<Edge> edges = EdgesOf(schedule);
  edges.push_back(edge);
  SetEdges(schedule, std::move(edges));
}

// What waited for the step then waits for what the step waited for.
void RemoveStep(Schedule& schedule, uint32_t removed) {
  std::vector<Edge> edges;
  std::vector<uint32_t> before, after;
  for (const auto& [from, to] : EdgesOf(schedule)) {
    if (from == removed) {
      after.push_back(to - 1);
    } else if (to == removed) {
      before.push_back(from);
    } else {
      edges.emplace_back(from - (from > removed), to - (to > removed));
    }
  }
  for (const uint32_t from : before) {
    for (const uint32_t to : after) edges.emplace_back(from, to);
  }
  schedule.steps.erase(schedule.steps.begin() + removed);
  SetEdges(schedule, std::move(edges));
}

// Whether `edge.second` waits for `edge.first` by way of other steps too.
bool IsImplied(const Schedule& schedule, Edge edge) {
  std::vector<bool> after(schedule.steps.size());
  after[edge.first] = true;
  for (const auto& [from, to] : EdgesOf(schedule)) {  // sorted by from, and all edges lead down the list
    if (after[from] && Edge{from, to} != edge) after[to] = true;
  }
  return after[edge.second];
}

std::vector<Schedule> Good(Collective collective, Algorithm algorithm, int size, bool wide = false) {
  return BuildAll({.collective = collective, .algorithm = algorithm, .size = size, .wide = wide});
}

void ExpectRefused(const std::vector<Schedule>& schedules, const std::string& where, const std::string& why) {
  const absl::Status status = Verify(schedules);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(where), HasSubstr(why)));
}

TEST(VerifierTest, RefusesSendWithoutReceive) {
  std::vector<Schedule> schedules = Good(Collective::kBroadcast, Algorithm::kTree, 2);
  RemoveStep(schedules[1], 0);
  ExpectRefused(schedules, "rank 0, step 0 (send input[0] to 1)", "rank 1 has no receive for it");
}

TEST(VerifierTest, RefusesReceiveWithoutSend) {
  std::vector<Schedule> schedules = Good(Collective::kBroadcast, Algorithm::kTree, 2);
  RemoveStep(schedules[0], 0);
  ExpectRefused(schedules, "rank 1, step 0 (recv output[0] from 0)", "rank 0 sends no message for it");
}

TEST(VerifierTest, RefusesMessageLeftOver) {
  std::vector<Schedule> schedules = Good(Collective::kBarrier, Algorithm::kBruck, 3);
  schedules[2].steps.push_back({.kind = StepKind::kSend, .peer = 0, .operand = {kInput, 0}});
  ExpectRefused(schedules, "rank 2, step 4 (send input[0] to 0)", "rank 0 has no receive for it");
}

TEST(VerifierTest, RefusesResultThatIsMissing) {
  std::vector<Schedule> schedules = Good(Collective::kAllReduce, Algorithm::kGather, 2);
  RemoveStep(schedules[1], 2);
  ExpectRefused(schedules, "rank 1, no step", "slice 0 of the output ends as nothing instead of final (0 1)");
}

TEST(VerifierTest, RefusesOperandsInAnotherOrder) {
  std::vector<Schedule> schedules = Good(Collective::kAllReduce, Algorithm::kDoubling, 4);
  const Step& last = schedules[2].steps.back();
  std::swap(schedules[2].sources[last.first_source], schedules[2].sources[last.first_source + 1]);
  ExpectRefused(schedules, "rank 2, step 5 (reduce final output[0] = output[0], plane1[0])",
                "ends as final ((2 3) (0 1)) instead of final ((0 1) (2 3))");
}

TEST(VerifierTest, RefusesContributionCountedTwice) {
  std::vector<Schedule> schedules = Good(Collective::kReduceScatter, Algorithm::kDirect, 3);
  const Step& reduce = schedules[0].steps.back();
  schedules[0].sources[reduce.first_source + 2] = schedules[0].sources[reduce.first_source + 1];
  ExpectRefused(schedules, "rank 0, step 4", "ends as final ((0 1) 1) instead of final ((0 1) 2)");
}

TEST(VerifierTest, RefusesMissingDependencies) {
  std::vector<Schedule> schedules = Good(Collective::kAllReduce, Algorithm::kGather, 2);
  // send input, recv plane, reduce output
  std::vector<Schedule> read_too_early = schedules;
  RemoveEdge(read_too_early[0], {1, 2});
  ExpectRefused(read_too_early, "rank 0, step 2", "reads slice 0 but does not wait for step 1, which writes it");
  std::vector<Schedule> written_too_early = schedules;
  RemoveEdge(written_too_early[0], {0, 2});
  ExpectRefused(written_too_early, "rank 0, step 2", "writes slice 0 but does not wait for step 0, which reads it");
}

TEST(VerifierTest, RefusesCrossedDependencies) {
  std::vector<Schedule> schedules = Good(Collective::kAllGather, Algorithm::kBruck, 4);
  // 0 copy, 1 send [0], 2 recv [1], 3 send [0], 4 send [1] after 2, 5 recv [2], 6 recv [3]
  RemoveEdge(schedules[0], {2, 4});
  AddEdge(schedules[0], {1, 4});
  ExpectRefused(schedules, "rank 0, step 4 (send output[1] to 2)", "does not wait for step 2");
}

TEST(VerifierTest, AcceptsOrderByWayOfOtherSteps) {
  std::vector<Schedule> schedules = Good(Collective::kAllGather, Algorithm::kBruck, 4);
  RemoveEdge(schedules[0], {2, 4});
  AddEdge(schedules[0], {2, 3});
  AddEdge(schedules[0], {3, 4});
  EXPECT_EQ(Verify(schedules), absl::OkStatus());
}

TEST(VerifierTest, RefusesCycleWithinARank) {
  std::vector<Schedule> schedules = Good(Collective::kAllReduce, Algorithm::kGather, 2);
  AddEdge(schedules[1], {2, 1});
  ExpectRefused(schedules, "rank 1, step 2", "step 1 cannot come after it");
}

TEST(VerifierTest, RefusesStepThatDoesNotExist) {
  std::vector<Schedule> schedules = Good(Collective::kAllReduce, Algorithm::kGather, 2);
  AddEdge(schedules[1], {2, 77});
  ExpectRefused(schedules, "rank 1, step 2", "step 77 cannot come after it");
}

TEST(VerifierTest, RefusesDependencyCountThatIsOff) {
  std::vector<Schedule> schedules = Good(Collective::kAllReduce, Algorithm::kGather, 2);
  ++schedules[1].steps[2].dependencies;
  ExpectRefused(schedules, "rank 1, step 2", "claims 3 dependencies, but 2 steps name it");
}

// Each rank receives before it sends.
std::vector<Schedule> ReceiveFirst(int size) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < size; ++rank) {
    ScheduleBuilder builder({Collective::kBarrier, Algorithm::kBruck, size, rank}, 1);
    const auto recv = builder.Recv((rank + size - 1) % size, {builder.AddPlane(0, 1), 0});
    builder.Order(recv, builder.Send({kInput, 0}, (rank + 1) % size));
    schedules.push_back(std::move(builder).Build());
  }
  return schedules;
}

TEST(VerifierTest, RefusesCycleAcrossRanks) {
  ExpectRefused(ReceiveFirst(3), "rank 0, step 0 (recv plane0[0] from 2)",
                "deadlock: it waits for step 1 of rank 2 (send input[0] to 0), which cannot begin");
}

// Would do if messages were buffered.
TEST(VerifierTest, RefusesSchedulesThatNeedBuffering) {
  std::vector<Schedule> schedules = Good(Collective::kBarrier, Algorithm::kBruck, 2);
  for (Schedule& schedule : schedules) AddEdge(schedule, {0, 1});  // send, then receive
  ExpectRefused(schedules, "rank 0, step 0 (send input[0] to 1)", "deadlock");
}

TEST(VerifierTest, RefusesWrongPeer) {
  std::vector<Schedule> schedules = Good(Collective::kAllGather, Algorithm::kBruck, 4);
  schedules[0].steps[1].peer = 1;  // not 3
  ExpectRefused(schedules, "rank 3, step 2 (recv output[0] from 0)", "rank 0 sends no message for it");
}

TEST(VerifierTest, RefusesPeerThatIsNotAnotherRank) {
  for (const int peer : {-1, 0, 4}) {
    std::vector<Schedule> schedules = Good(Collective::kAllGather, Algorithm::kBruck, 4);
    schedules[0].steps[1].peer = peer;
    ExpectRefused(schedules, "rank 0, step 1", "the peer is not another rank");
  }
}

TEST(VerifierTest, RefusesWrongSlice) {
  std::vector<Schedule> schedules = Good(Collective::kReduceScatter, Algorithm::kDirect, 4);
  schedules[0].steps[0].operand.first = 2;  // not 1
  ExpectRefused(schedules, "rank 1, step 3 (recv plane0[1] from 0)",
                "is for other slices than the matching step 0 of rank 0 (send input[2] to 1)");
}

TEST(VerifierTest, RefusesSlicesThatDoNotExist) {
  std::vector<Schedule> schedules = Good(Collective::kAllReduce, Algorithm::kHalving, 4);
  schedules[0].steps[0].operand.count = 3;
  ExpectRefused(schedules, "rank 0, step 0 (send input[2..5) to 1)",
                "the space holds only the slices from 0 to below 4");
  schedules[0].steps[0].operand.count = 0;
  ExpectRefused(schedules, "rank 0, step 0", "an operand of no slices");
  schedules[0].steps[0].operand = {99, 0, 1};
  ExpectRefused(schedules, "rank 0, step 0", "there is no such plane");
}

TEST(VerifierTest, RefusesSeveralBlocksInOneOperand) {
  std::vector<Schedule> schedules = Good(Collective::kReduceScatter, Algorithm::kHalving, 4);
  schedules[0].steps[0].operand.count = 2;
  ExpectRefused(schedules, "rank 0, step 0", "an operand of several blocks");
}

TEST(VerifierTest, RefusesAnotherRanksBlockAsOutput) {
  std::vector<Schedule> schedules = Good(Collective::kReduceScatter, Algorithm::kDirect, 2);
  schedules[0].steps.back().operand.first = 1;
  ExpectRefused(schedules, "rank 0, step 2", "the space holds only the slices from 0 to below 1");
}

TEST(VerifierTest, RefusesWritingTheInput) {
  std::vector<Schedule> schedules = Good(Collective::kAllReduce, Algorithm::kGather, 2);
  schedules[0].steps.back().operand.space = kInput;
  ExpectRefused(schedules, "rank 0, step 2", "writes the input");
}

TEST(VerifierTest, RefusesReadingInputThatIsOverwrittenInPlace) {
  std::vector<Schedule> schedules = Good(Collective::kAllReduce, Algorithm::kDoubling, 4);
  schedules[0].steps[3].operand.space = kInput;  // not the partial result
  ExpectRefused(schedules, "rank 0, step 3 (send input[0] to 2)", "which step 2 has overwritten in place");
}

// In place it would do.
TEST(VerifierTest, RefusesToForgetTheOwnBlock) {
  std::vector<Schedule> schedules = Good(Collective::kAllGather, Algorithm::kDirect, 2);
  RemoveStep(schedules[1], 0);
  ExpectRefused(schedules, "rank 1, step 0 (send output[1] to 0)", "slice 1 holds nothing yet");
}

TEST(VerifierTest, RefusesResultThatIsNeverFinal) {
  std::vector<Schedule> schedules = Good(Collective::kAllReduce, Algorithm::kGather, 2);
  schedules[1].steps.back().final = false;
  ExpectRefused(schedules, "rank 1, step 2", "ends as (0 1) instead of final (0 1)");
}

TEST(VerifierTest, RefusesResultThatIsFinalTwice) {
  std::vector<Schedule> schedules = Good(Collective::kAllReduce, Algorithm::kDoubling, 4);
  schedules[1].steps[2].final = true;
  ExpectRefused(schedules, "rank 3, step 5 (reduce final output[0] = plane1[0], output[0])",
                "a source of slice 0 is final already");
}

TEST(VerifierTest, RefusesFinalWhereNothingIsReduced) {
  std::vector<Schedule> schedules = Good(Collective::kAllGather, Algorithm::kDirect, 2);
  schedules[1].steps[0].final = true;
  ExpectRefused(schedules, "rank 1, step 0", "final, but nothing is reduced");
}

TEST(VerifierTest, RefusesToRoundPartialResults) {
  std::vector<Schedule> schedules = Good(Collective::kAllReduce, Algorithm::kDoubling, 4, /*wide=*/true);
  std::vector<Schedule> never_final = schedules;
  never_final[2].steps.back().final = false;
  ExpectRefused(never_final, "rank 2, step 7 (copy output[0] = plane0[0])", "a partial result would be rounded");
  std::vector<Schedule> too_early = schedules;
  too_early[2].steps[3].final = true;
  ExpectRefused(too_early, "rank 2, step 3", "a final result in a plane of accumulators");
  std::vector<Schedule> mixed = schedules;
  mixed[2].sources[mixed[2].steps[3].first_source].space = kInput;
  ExpectRefused(mixed, "rank 2, step 3", "sources of another type");
}

TEST(VerifierTest, RefusesMessageBetweenTypes) {
  std::vector<Schedule> schedules = Good(Collective::kAllReduce, Algorithm::kDoubling, 2, /*wide=*/true);
  schedules[1].steps[1].operand.space = kInput;  // not the widened one
  ExpectRefused(schedules, "rank 0, step 2", "is for another type than the matching step 1 of rank 1");
}

TEST(VerifierTest, RefusesBarrierThatLetsARankPassTooEarly) {
  std::vector<Schedule> schedules = Good(Collective::kBarrier, Algorithm::kBruck, 4);
  // 0 send to r+1, 1 recv from r-1, 2 send to r+2 after 1, 3 recv from r-2
  RemoveEdge(schedules[1], {1, 2});
  ExpectRefused(schedules, "rank 3", "waits, by way of others, for rank 0 to arrive");
}

TEST(VerifierTest, RefusesSchedulesOfAnotherGroup) {
  std::vector<Schedule> schedules = Good(Collective::kAllReduce, Algorithm::kGather, 3);
  std::swap(schedules[1], schedules[2]);
  ExpectRefused(schedules, "rank 1", "this is the schedule of rank 2 of 3, not of 1 of 3");
  schedules[1] = Build({Collective::kAllReduce, Algorithm::kDoubling, 3}, 1);
  ExpectRefused(schedules, "rank 1", "differ from rank 0's");
}

TEST(VerifierTest, RefusesSourcesOutsideTheSchedule) {
  std::vector<Schedule> schedules = Good(Collective::kAllReduce, Algorithm::kGather, 3);
  schedules[0].steps.back().source_count = UINT32_MAX;
  ExpectRefused(schedules, "rank 0, step 4", "lie outside the schedule");
}

TEST(VerifierTest, RefusesRingThatStartsSomewhereElse) {
  std::vector<Schedule> schedules = Good(Collective::kReduceScatter, Algorithm::kRing, 3);
  const Step& reduce = schedules[2].steps[2];  // of slice 0, second in its chain
  std::swap(schedules[2].sources[reduce.first_source], schedules[2].sources[reduce.first_source + 1]);
  ExpectRefused(schedules, "rank 0", "ends as final ((2 1) 0) instead of final ((1 2) 0)");
}

TEST(VerifierTest, RefusesOutputThatOnlyTheRootHas) {
  std::vector<Schedule> schedules = Good(Collective::kReduce, Algorithm::kDirect, 3);
  for (Step& step : schedules[1].steps) {
    if (step.final) step.operand.space = kOutput;
  }
  ExpectRefused(schedules, "rank 1", "this rank has no such memory");
  schedules = Good(Collective::kGather, Algorithm::kDirect, 3);
  schedules[1].steps[0].operand.space = kOutput;
  ExpectRefused(schedules, "rank 1, step 0 (send output[1] to 0)", "this rank has no such memory");
}

TEST(VerifierTest, RefusesInputThatOnlyTheRootHas) {
  std::vector<Schedule> schedules = Good(Collective::kScatter, Algorithm::kTree, 4);
  for (Step& step : schedules[2].steps) {
    if (step.kind == StepKind::kSend) step.operand.space = kInput;
  }
  ExpectRefused(schedules, "rank 2", "this rank has no such memory");
}

TEST(VerifierTest, RefusesReduceThatEndsOnAnotherRank) {
  std::vector<Schedule> schedules = Good(Collective::kReduce, Algorithm::kGather, 3);
  for (Schedule& schedule : schedules) schedule.root = 1;
  ExpectRefused(schedules, "rank 0", "this rank has no such memory");
}

TEST(VerifierTest, RefusesToForgetABlockOfAllToAll) {
  std::vector<Schedule> schedules = Good(Collective::kAllToAll, Algorithm::kBruck, 2);
  RemoveStep(schedules[1], 0);  // the copy of the own block
  ExpectRefused(schedules, "rank 1, no step", "slice 0 of the output ends as nothing instead of 1");
}

TEST(VerifierTest, RefusesBlockThatCameAWrongWay) {
  std::vector<Schedule> schedules = Good(Collective::kAllToAll, Algorithm::kDirect, 3);
  for (Schedule& schedule : schedules) {  // everything the other way round
    for (Step& step : schedule.steps) {
      if (step.peer >= 0) step.peer = 3 - step.peer - schedule.rank;
    }
  }
  ExpectRefused(schedules, "rank 0", "slice 1 of the output ends as 1 instead of 2");
}

// --- Every schedule, broken in every place, in the ways that always matter. ---

bool MovesSlice(Schedule& schedule, uint32_t step) {
  uint32_t& first = schedule.steps[step].operand.first;
  first = first == 0 ? 1 : first - 1;
  return true;
}

bool Disappears(Schedule& schedule, uint32_t step) {
  RemoveStep(schedule, step);
  return true;
}

TEST(VerifierTest, RefusesEveryScheduleBrokenInAnyStep) {
  const Fault kFaults[] = {{"removed", Disappears},
                           {"other peer", GoesToAnotherPeer},
                           {"sources swapped", SwapsSources},
                           {"final flipped", FlipsFinal},
                           {"other slice", MovesSlice}};
  for (const int size : {1, 2, 3, 4, 5, 6, 8}) {
    for (const ScheduleKey& key : AllKeys(size)) {
      const std::vector<Schedule> good = BuildAll(key);
      for (int rank = 0; rank < size; ++rank) {
        for (uint32_t step = 0; step < good[rank].steps.size(); ++step) {
          for (const Fault& fault : kFaults) {
            std::vector<Schedule> broken = good;
            if (!fault.make(broken[rank], step)) continue;
            EXPECT_FALSE(Verify(broken).ok())
                << ToString(key) << ", rank " << rank << ", step " << step << " " << fault.name;
          }
        }
      }
    }
  }
}

TEST(VerifierTest, RefusesEveryScheduleWithoutAnyOfItsDependencies) {
  int removed = 0;
  for (const int size : {2, 3, 4, 5, 8}) {
    for (const ScheduleKey& key : AllKeys(size)) {
      // With n off a power of two, some news of a barrier goes round twice.
      if (key.collective == Collective::kBarrier && (size & (size - 1)) != 0) continue;
      const std::vector<Schedule> good = BuildAll(key);
      for (int rank = 0; rank < size; ++rank) {
        for (const Edge& edge : EdgesOf(good[rank])) {
          if (IsImplied(good[rank], edge)) continue;
          std::vector<Schedule> broken = good;
          RemoveEdge(broken[rank], edge);
          ++removed;
          EXPECT_FALSE(Verify(broken).ok()) << ToString(key) << ", rank " << rank << ", step " << edge.second
                                            << " does not wait for step " << edge.first;
        }
      }
    }
  }
  EXPECT_GT(removed, 500);
}

}  // namespace
}  // namespace tutti
