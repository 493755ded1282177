#include "src/engine/selection.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/schedule/builders.h"

namespace tutti {
namespace {

using testing::AllOf;
using testing::HasSubstr;

SelectionTable Table(absl::string_view text) {
  absl::StatusOr<SelectionTable> table = ParseSelectionTable(text);
  EXPECT_TRUE(table.ok()) << table.status();
  return *std::move(table);
}

Selection AllReduce(int size, uint64_t count, DataType type, const SelectionTable& table,
                    ReduceOp op = ReduceOp::kSum) {
  return Select({.collective = Collective::kAllReduce, .size = size, .count = count, .type = type, .op = op}, table);
}

TEST(Selection, ChoosesAnAlgorithmThatExistsForEverySizeAndCollective) {
  const SelectionTable table;
  for (const int size : {1, 2, 3, 8, 64, 65, 1000, 4096}) {
    for (int code = 0; code <= static_cast<int>(Collective::kAllToAll); ++code) {
      const auto collective = static_cast<Collective>(code);
      if (size == 1 && (collective == Collective::kSend || collective == Collective::kRecv)) continue;
      for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{1000}, uint64_t{1} << 30}) {
        const Selection selection =
            Select({.collective = collective, .size = size, .count = count, .type = DataType::kBFloat16}, table);
        EXPECT_GE(selection.segment_count, 1u);
        EXPECT_FALSE(selection.reason.empty());
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
  const SelectionTable halving = Table("all-reduce = halving");
  EXPECT_TRUE(AllReduce(4, 100, DataType::kFloat16, halving).wide);
  EXPECT_FALSE(AllReduce(4, 100, DataType::kFloat32, halving).wide);
  EXPECT_TRUE(AllReduce(4, 100, DataType::kInt8, halving, ReduceOp::kAverage).wide);
  EXPECT_FALSE(AllReduce(4, 100, DataType::kInt8, halving).wide);
}

TEST(Selection, LargeNarrowTypesTakeAnAlgorithmThatDoesNotWidenThem) {
  const SelectionTable table;
  EXPECT_EQ(AllReduce(4, 1 << 20, DataType::kBFloat16, table).algorithm, Algorithm::kDirect);
  EXPECT_EQ(AllReduce(4, 1 << 20, DataType::kInt8, table, ReduceOp::kAverage).algorithm, Algorithm::kDirect);
  EXPECT_EQ(AllReduce(4, 1 << 20, DataType::kInt8, table).algorithm, Algorithm::kHalving);
}

TEST(Selection, UnevenBlocksTakeNoAlgorithmWithSomebodyInBetween) {
  for (const Collective collective :
       {Collective::kGather, Collective::kScatter, Collective::kAllToAll, Collective::kReduceScatter}) {
    const Selection selection =
        Select({.collective = collective, .size = 100, .type = DataType::kInt8, .uneven = true}, SelectionTable());
    EXPECT_EQ(selection.algorithm, Algorithm::kDirect) << Name(collective);
  }
}

Selection AllReduceOnHosts(int size, int ranks_per_host, uint64_t count, const SelectionTable& table) {
  return Select({.collective = Collective::kAllReduce,
                 .size = size,
                 .count = count,
                 .type = DataType::kFloat32,
                 .ranks_per_host = ranks_per_host},
                table);
}

TEST(Selection, LargeAllReducesOfSeveralHostsAreHierarchical) {
  const SelectionTable table;
  const Selection large = AllReduceOnHosts(16, 8, 1 << 20, table);
  EXPECT_EQ(large.algorithm, Algorithm::kHierarchical);
  EXPECT_EQ(large.ranks_per_host, 8);
  EXPECT_EQ(large.message_bytes, 512u << 10);
  EXPECT_EQ(AllReduceOnHosts(16, 8, 16 << 10, table).algorithm, Algorithm::kHierarchical);
  EXPECT_EQ(AllReduceOnHosts(16, 8, (16 << 10) - 1, table).algorithm, Algorithm::kHalving);
  EXPECT_EQ(AllReduceOnHosts(16, 8, (16 << 10) - 1, table).ranks_per_host, 1);
  for (const int ranks_per_host : {0, 5, 16}) {
    EXPECT_EQ(AllReduceOnHosts(16, ranks_per_host, 1 << 20, table).algorithm, Algorithm::kHalving) << ranks_per_host;
  }
}

TEST(Selection, LargeAllReducesOfRanksOnHostsOfTheirOwnAreDirect) {
  const SelectionTable table;
  EXPECT_EQ(AllReduceOnHosts(16, 1, 1 << 18, table).algorithm, Algorithm::kDirect);
  EXPECT_EQ(AllReduceOnHosts(16, 1, 1 << 18, table).message_bytes, 64u << 10);
  EXPECT_EQ(AllReduceOnHosts(16, 1, (1 << 18) - 1, table).algorithm, Algorithm::kHalving);
  EXPECT_EQ(AllReduceOnHosts(16, 0, 1 << 18, table).algorithm, Algorithm::kHalving);
}

TEST(Selection, HierarchicalCanBeAskedFor) {
  const SelectionTable table = Table("all-reduce = hierarchical chunk=64K");
  EXPECT_EQ(AllReduceOnHosts(6, 3, 1 << 20, table).algorithm, Algorithm::kHierarchical);
  EXPECT_EQ(AllReduceOnHosts(6, 3, 1 << 20, table).segment_count, 3u * (64 << 10) / 4);
  EXPECT_EQ(AllReduceOnHosts(6, 0, 1 << 20, table).algorithm, Algorithm::kHalving);  // nothing is known of hosts
}

TEST(Selection, TheFirstRuleThatFitsDecides) {
  const SelectionTable table =
      Table("all-reduce ranks<=4 bytes<=1K = doubling; all-reduce bytes<=2M = ring chunk=64K\nbroadcast = tree");
  EXPECT_EQ(AllReduce(4, 256, DataType::kFloat32, table).algorithm, Algorithm::kDoubling);
  EXPECT_EQ(AllReduce(4, 257, DataType::kFloat32, table).algorithm, Algorithm::kRing);
  EXPECT_EQ(AllReduce(5, 1, DataType::kFloat32, table).algorithm, Algorithm::kRing);
  EXPECT_EQ(AllReduce(5, 1, DataType::kFloat32, table).segment_count, 5u * (64 << 10) / 4);
  EXPECT_EQ(AllReduce(5, 1, DataType::kFloat32, table).reason, "TUTTI_SELECTION");
  EXPECT_EQ(AllReduce(4, 1 << 20, DataType::kFloat32, table).algorithm, Algorithm::kHalving);
}

TEST(Selection, ARuleForTooManyRanksIsPassedOver) {
  EXPECT_EQ(AllReduce(1025, 1, DataType::kFloat32, Table("all-reduce = direct")).algorithm, Algorithm::kQuadrupling);
}

TEST(Selection, NonsenseIsRefusedByName) {
  for (const auto& [text, what] : std::vector<std::pair<std::string, std::string>>{
           {"all-reduce", "expected"},
           {"all_reduce = ring", "there is no collective 'all_reduce'"},
           {"all-reduce = tree", "there is no all-reduce by 'tree', only by exchange"},
           {"all-reduce size<=3 = ring", "'size<=3' is neither"},
           {"all-reduce ranks<=0 = ring", "'0' is no limit"},
           {"all-reduce bytes<=-1 = ring", "'-1' is no limit"},
           {"all-reduce bytes<=99999999999999999999 = ring", "is no limit"},
           {"all-reduce = ring chunk=0", "only chunk=SIZE"},
           {"all-reduce = ring fast", "only chunk=SIZE"},
           {" = ring", "expected"}}) {
    const absl::Status status = ParseSelectionTable("broadcast = tree;" + text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
  }
}

TEST(Selection, DescribesEverySwitchPoint) {
  const std::string text = DescribeSelection(Table("all-reduce bytes<=100 = ring"), 2);
  EXPECT_THAT(text, HasSubstr("all-reduce = ring up to 100 bytes in segments"));
  EXPECT_THAT(text, HasSubstr("(TUTTI_SELECTION); exchange up to 524288 bytes"));
  EXPECT_THAT(text, HasSubstr("\nreduce-scatter = direct in segments"));
  EXPECT_THAT(DescribeSelection(SelectionTable(), 8, /*ranks_per_host=*/4),
              AllOf(HasSubstr("; halving up to 65535 bytes in segments"), HasSubstr("; hierarchical in segments")));
}

}  // namespace
}  // namespace tutti
