#include "src/engine/selection.h"

#include "gtest/gtest.h"
#include "src/schedule/builders.h"

namespace tutti {
namespace {

TEST(Selection, ChoosesAnAlgorithmThatExistsForEverySizeAndCollective) {
  for (const int size : {1, 2, 3, 8, 64, 65, 1000, 4096}) {
    for (int code = 0; code <= static_cast<int>(Collective::kRecv); ++code) {
      const auto collective = static_cast<Collective>(code);
      if (size == 1 && collective >= Collective::kSend) continue;
      for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{1000}, uint64_t{1} << 30}) {
        const Selection selection = Select(collective, size, count, DataType::kBFloat16, ReduceOp::kSum);
        EXPECT_GE(selection.segment_count, 1u);
        const absl::StatusOr<Schedule> schedule = BuildSchedule({.collective = collective,
                                                                 .algorithm = selection.algorithm,
                                                                 .size = size,
                                                                 .rank = 0,
                                                                 .root = size > 1 ? 1 : 0,
                                                                 .wide = selection.wide});
        EXPECT_TRUE(schedule.ok()) << schedule.status() << " " << Name(collective) << " of " << size;
      }
    }
  }
}

TEST(Selection, PartialSumsOfNarrowTypesTravelWide) {
  const SelectionOverride halving = {.has_algorithm = true, .algorithm = Algorithm::kHalving};
  EXPECT_TRUE(Select(Collective::kAllReduce, 4, 100, DataType::kFloat16, ReduceOp::kSum, halving).wide);
  EXPECT_FALSE(Select(Collective::kAllReduce, 4, 100, DataType::kFloat32, ReduceOp::kSum, halving).wide);
  EXPECT_TRUE(Select(Collective::kAllReduce, 4, 100, DataType::kInt8, ReduceOp::kAverage, halving).wide);
  EXPECT_FALSE(Select(Collective::kAllReduce, 4, 100, DataType::kInt8, ReduceOp::kSum, halving).wide);
}

TEST(Selection, AnAlgorithmThatTheCollectiveLacksIsNotForced) {
  const SelectionOverride gather = {.has_algorithm = true, .algorithm = Algorithm::kGather};
  EXPECT_EQ(Select(Collective::kBroadcast, 4, 100, DataType::kFloat32, ReduceOp::kSum, gather).algorithm,
            Algorithm::kTree);
}

}  // namespace
}  // namespace tutti
