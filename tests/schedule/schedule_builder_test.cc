#include "src/schedule/schedule_builder.h"

#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr ScheduleKey kKey = {
    .collective = Collective::kAllReduce, .algorithm = Algorithm::kDirect, .size = 4, .rank = 0};

// What each step waits for.
std::vector<std::vector<uint32_t>> Predecessors(const Schedule& schedule) {
  std::vector<std::vector<uint32_t>> predecessors(schedule.steps.size());
  for (uint32_t i = 0; i < schedule.steps.size(); ++i) {
    for (const uint32_t successor : schedule.SuccessorsOf(schedule.steps[i])) predecessors[successor].push_back(i);
  }
  for (uint32_t i = 0; i < schedule.steps.size(); ++i) {
    EXPECT_EQ(schedule.steps[i].dependencies, predecessors[i].size()) << "step " << i;
  }
  return predecessors;
}

TEST(ScheduleBuilderTest, ReaderWaitsForTheWriterOnly) {
  ScheduleBuilder builder(kKey, 2);
  const Space plane = builder.AddPlane(0, 2);
  builder.Recv(1, {plane, 0});
  builder.Recv(2, {plane, 1});
  builder.Send({plane, 1}, 3);
  EXPECT_THAT(Predecessors(std::move(builder).Build()), ElementsAre(IsEmpty(), IsEmpty(), ElementsAre(1)));
}

TEST(ScheduleBuilderTest, ReadersDoNotWaitForEachOther) {
  ScheduleBuilder builder(kKey, 1);
  builder.Send({kInput, 0}, 1);
  builder.Send({kInput, 0}, 2);
  EXPECT_THAT(Predecessors(std::move(builder).Build()), ElementsAre(IsEmpty(), IsEmpty()));
}

TEST(ScheduleBuilderTest, WriterWaitsForTheReadersSinceTheLastWrite) {
  ScheduleBuilder builder(kKey, 1);
  const Space plane = builder.AddPlane(0, 1);
  builder.Recv(1, {plane, 0});
  builder.Send({plane, 0}, 2);
  builder.Send({plane, 0}, 3);
  builder.Recv(2, {plane, 0});
  builder.Recv(3, {plane, 0});
  EXPECT_THAT(Predecessors(std::move(builder).Build()),
              ElementsAre(IsEmpty(), ElementsAre(0), ElementsAre(0), ElementsAre(1, 2), ElementsAre(3)));
}

TEST(ScheduleBuilderTest, InputAndOutputAreTheSameMemory) {
  ScheduleBuilder builder(kKey, 2);
  builder.Send({kInput, 1}, 1);
  builder.Recv(1, {kOutput, 0});
  builder.Recv(1, {kOutput, 1});
  EXPECT_THAT(Predecessors(std::move(builder).Build()), ElementsAre(IsEmpty(), IsEmpty(), ElementsAre(0)));
}

TEST(ScheduleBuilderTest, InputAndOutputOfAllToAllAreNot) {
  ScheduleBuilder builder({.collective = Collective::kAllToAll, .algorithm = Algorithm::kDirect, .size = 4}, 4);
  builder.Send({kInput, 1}, 1);
  builder.Recv(3, {kOutput, 1});
  builder.Send({kOutput, 1}, 2);
  EXPECT_THAT(Predecessors(std::move(builder).Build()), ElementsAre(IsEmpty(), IsEmpty(), ElementsAre(1)));
}

TEST(ScheduleBuilderTest, StepWithManySharedSlicesWaitsOnce) {
  ScheduleBuilder builder(kKey, 8);
  const Space plane = builder.AddPlane(4, 4);
  builder.Recv(1, {plane, 4, 4});
  builder.Reduce({{kInput, 4, 4}, {plane, 4, 4}}, {kOutput, 4, 4});
  builder.Send({kOutput, 6, 2}, 1);
  EXPECT_THAT(Predecessors(std::move(builder).Build()), ElementsAre(IsEmpty(), ElementsAre(0), ElementsAre(1)));
}

TEST(ScheduleBuilderTest, StepThatReadsWhatItWritesDoesNotWaitForItself) {
  ScheduleBuilder builder(kKey, 1);
  const Space plane = builder.AddPlane(0, 1);
  builder.Recv(1, {plane, 0});
  builder.ReduceFinal({{kInput, 0}, {plane, 0}}, {plane, 0});
  EXPECT_THAT(Predecessors(std::move(builder).Build()), ElementsAre(IsEmpty(), ElementsAre(0)));
}

TEST(ScheduleBuilderTest, ExplicitOrderIsAddedOnce) {
  ScheduleBuilder builder(kKey, 1);
  const auto recv = builder.Recv(1, {builder.AddPlane(0, 1), 0});
  const auto send = builder.Send({kInput, 0}, 2);
  builder.Order(recv, send);
  builder.Order(recv, send);
  EXPECT_THAT(Predecessors(std::move(builder).Build()), ElementsAre(IsEmpty(), ElementsAre(0)));
}

TEST(ScheduleTest, PrintsOneStepALine) {
  ScheduleBuilder builder(kKey, 4);
  const Space plane = builder.AddPlane(0, 2);
  builder.Recv(1, {plane, 0, 2});
  builder.ReduceFinal({{kInput, 0, 2}, {plane, 0, 2}}, {kOutput, 0, 2});
  builder.Send({kOutput, 1}, 3);
  EXPECT_EQ(ToString(std::move(builder).Build()),
            "all-reduce by direct, rank 0 of 4, 4 slices\n"
            "0: recv plane0[0..2) from 1  before 1\n"
            "1: reduce final output[0..2) = input[0..2), plane0[0..2)  before 2\n"
            "2: send output[1] to 3\n");
}

}  // namespace
}  // namespace tutti
