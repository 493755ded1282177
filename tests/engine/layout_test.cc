#include "src/engine/layout.h"

#include <vector>

#include "gtest/gtest.h"
#include "src/schedule/builders.h"

namespace tutti {
namespace {

Schedule Build(Collective collective, Algorithm algorithm, int size, int rank) {
  return *BuildSchedule({.collective = collective, .algorithm = algorithm, .size = size, .rank = rank});
}

TEST(Layout, SlicesCoverEverySegmentOnceAndInOrder) {
  const Schedule schedule = Build(Collective::kAllReduce, Algorithm::kDirect, 3, 1);
  std::vector<float> data(1000);
  for (const uint64_t segment_count : {1, 7, 100, 333, 1000, 5000}) {
    Layout layout;
    layout.Bind(schedule, {data.data(), data.data(), data.size()}, segment_count, 4, 4);
    auto* next = reinterpret_cast<std::byte*>(data.data());
    for (uint64_t segment = 0; segment < layout.segments(); ++segment) {
      for (uint32_t slice = 0; slice < schedule.slices; ++slice) {
        const Layout::Range range = layout.Locate({kInput, slice, 1}, segment, nullptr);
        if (range.count > 0) {
          ASSERT_EQ(range.data, next);
        }
        ASSERT_EQ(range.bytes, range.count * 4);
        next += range.bytes;
      }
    }
    EXPECT_EQ(next, reinterpret_cast<std::byte*>(data.data() + data.size())) << segment_count;
  }
}

TEST(Layout, BlocksAreAddressedByRank) {
  const Schedule schedule = Build(Collective::kReduceScatter, Algorithm::kDirect, 3, 2);
  std::vector<double> input(30), output(10);
  Layout layout;
  layout.Bind(schedule, {input.data(), output.data(), 10}, 4, 8, 8);
  EXPECT_EQ(layout.segments(), 3u);
  const Layout::Range block = layout.Locate({kInput, 1, 1}, 2, nullptr);
  EXPECT_EQ(block.data, reinterpret_cast<std::byte*>(&input[10 + 8]));
  EXPECT_EQ(block.count, 2u);
  EXPECT_EQ(layout.Locate({kOutput, 2, 1}, 1, nullptr).data, reinterpret_cast<std::byte*>(&output[4]));
}

TEST(Layout, BlocksOfAllToAllAreNumberedByDistance) {
  const Schedule schedule = Build(Collective::kAllToAll, Algorithm::kDirect, 4, 1);
  std::vector<float> input(40), output(40);
  Layout layout;
  layout.Bind(schedule, {input.data(), output.data(), 10}, 100, 4, 4);
  EXPECT_EQ(layout.Locate({kInput, 2, 1}, 0, nullptr).data, reinterpret_cast<std::byte*>(&input[30]));    // to rank 3
  EXPECT_EQ(layout.Locate({kOutput, 2, 1}, 0, nullptr).data, reinterpret_cast<std::byte*>(&output[30]));  // from 3
  EXPECT_EQ(layout.Locate({kOutput, 3, 1}, 0, nullptr).data, reinterpret_cast<std::byte*>(&output[20]));  // from 2
}

TEST(Layout, UnevenBlocksLieOneAfterAnotherAndEndInDifferentSegments) {
  const Schedule schedule = Build(Collective::kAllGather, Algorithm::kDirect, 3, 2);
  const std::vector<size_t> counts = {5, 0, 9};
  std::vector<float> input(9), output(14);
  Layout layout;
  layout.Bind(schedule,
              {.input = input.data(),
               .output = output.data(),
               .input_counts = absl::MakeConstSpan(counts).subspan(2, 1),
               .output_counts = counts},
              4, 4, 4);
  EXPECT_EQ(layout.segments(), 3u);
  EXPECT_EQ(layout.Locate({kOutput, 0, 1}, 1, nullptr).count, 1u);
  EXPECT_EQ(layout.Locate({kOutput, 0, 1}, 1, nullptr).data, reinterpret_cast<std::byte*>(&output[4]));
  EXPECT_EQ(layout.Locate({kOutput, 2, 1}, 2, nullptr).data, reinterpret_cast<std::byte*>(&output[13]));
  EXPECT_EQ(layout.Locate({kInput, 2, 1}, 2, nullptr).count, 1u);
  EXPECT_EQ(layout.BlockBytes({kOutput, 0, 1}), 20u);
  // The first segment's messages go out even if empty; later ones do not.
  EXPECT_FALSE(layout.Omits({kOutput, 1, 1}, 0));
  EXPECT_TRUE(layout.Omits({kOutput, 1, 1}, 1));
  EXPECT_FALSE(layout.Omits({kOutput, 0, 1}, 1));
  EXPECT_TRUE(layout.Omits({kOutput, 0, 1}, 2));
}

TEST(Layout, PlanesOfASegmentDoNotOverlapAndFitTheScratch) {
  for (const bool wide : {false, true}) {
    const Schedule schedule = *BuildSchedule(
        {.collective = Collective::kAllReduce, .algorithm = Algorithm::kHalving, .size = 6, .rank = 3, .wide = wide});
    const size_t plane_bytes = wide ? 4 : 2;
    std::vector<uint16_t> data(999);
    Layout layout;
    layout.Bind(schedule, {data.data(), data.data(), data.size()}, 500, 2, plane_bytes);
    std::vector<std::byte> scratch(layout.scratch_bytes());
    for (uint64_t segment = 0; segment < layout.segments(); ++segment) {
      const std::byte* end = scratch.data();
      for (size_t i = 0; i < schedule.planes.size(); ++i) {
        const Plane& plane = schedule.planes[i];
        const Layout::Range range =
            layout.Locate({static_cast<Space>(kPlane + i), plane.first, plane.count}, segment, scratch.data());
        EXPECT_GE(range.data, end);
        end = range.data + range.bytes;
        EXPECT_LE(end, scratch.data() + scratch.size());
      }
    }
  }
}

TEST(Layout, NothingIsOneEmptySegment) {
  const Schedule schedule = Build(Collective::kBarrier, Algorithm::kBruck, 4, 0);
  Layout layout;
  layout.Bind(schedule, {}, 1, 1, 1);
  EXPECT_EQ(layout.segments(), 1u);
  EXPECT_EQ(layout.scratch_bytes(), 0u);
  EXPECT_EQ(layout.Locate({kOutput, 0, 1}, 0, nullptr).bytes, 0u);
}

}  // namespace
}  // namespace tutti
