// The result of a reduction depends on the inputs and the number of ranks alone: on every rank, and for every
// algorithm, cut and wire, the same bytes come out; and they are right.

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/groups.h"
#include "tests/support/numbers.h"
#include "tutti/process_group.h"

namespace tutti {
namespace {

struct Case {
  Wire wire;
  int size;
  DataType type;
};

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  return Name(info.param.wire) + std::to_string(info.param.size) + std::string(Name(info.param.type));
}

class SameBits : public testing::TestWithParam<Case> {
 protected:
  int size() const { return GetParam().size; }
  DataType type() const { return GetParam().type; }

  std::vector<Numbers> RandomInputs(size_t count) const {
    std::vector<Numbers> inputs;
    for (int rank = 0; rank < size(); ++rank)
      inputs.push_back(Numbers::Random(type(), count, 1000u + static_cast<uint64_t>(rank)));
    return inputs;
  }

  // What every rank has after all-reducing [begin, end) for each pair of neighbouring cuts, all in flight at once.
  std::vector<Numbers> Reduce(const std::vector<Numbers>& inputs, absl::string_view selection,
                              const std::vector<size_t>& cuts, int ranks_per_host = 1) const {
    TestGroupOptions options;
    options.engine.selection = *ParseSelectionTable(selection);
    options.engine.ranks_per_host = ranks_per_host;
    TestGroups groups = MakeGroups(GetParam().wire, size(), options);
    std::vector<Numbers> outputs(inputs.size(), Numbers(type(), inputs[0].count()));
    OnEachRank(size(), [&](int rank) {
      std::vector<Work> works;
      for (size_t i = 0; i + 1 < cuts.size(); ++i) {
        works.push_back(
            groups[rank].AllReduce(inputs[static_cast<size_t>(rank)].part(cuts[i], cuts[i + 1] - cuts[i]),
                                   outputs[static_cast<size_t>(rank)].part(cuts[i], cuts[i + 1] - cuts[i])));
      }
      for (Work& work : works) EXPECT_TRUE(work.Wait().ok()) << work.Wait();
    });
    return outputs;
  }

  void ExpectRight(const std::vector<Numbers>& inputs, const Numbers& output) const {
    const double levels = std::ceil(std::log2(size())) + 1;
    const bool half = ByteSize(type()) == 2;
    for (size_t i = 0; i < output.count(); ++i) {
      long double sum = 0, magnitude = 0;
      for (const Numbers& input : inputs) {
        sum += input.Value(i);
        magnitude += std::abs(input.Value(i));
      }
      const DataType arithmetic = half ? DataType::kFloat32 : type();
      double bound = levels * UnitInLastPlace(arithmetic, static_cast<double>(magnitude));
      if (half) bound += 0.5 * UnitInLastPlace(type(), static_cast<double>(sum));
      ASSERT_LE(std::abs(static_cast<double>(output.Value(i) - sum)), bound) << "element " << i;
    }
  }
};

std::vector<size_t> RandomCuts(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<size_t> cuts = {0, count};
  for (int i = 0; i < 5; ++i) cuts.push_back(random() % (count + 1));
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

TEST_P(SameBits, OnAllRanksForAllAlgorithmsAndCuts) {
  const auto n = static_cast<size_t>(size());
  for (const size_t count : {size_t{0}, size_t{1}, n - 1, n, size_t{TUTTI_LARGE_COUNT}}) {
    SCOPED_TRACE("count " + std::to_string(count));
    const std::vector<Numbers> inputs = RandomInputs(count);
    const std::vector<size_t> whole = {0, count};
    const Numbers reference = Reduce(inputs, "", whole)[0];
    ExpectRight(inputs, reference);

    // Small messages take large data through many segments.
    const uint64_t chunk_bytes = count > 1000 ? 64 << 10 : 8;
    for (const Algorithm algorithm : {Algorithm::kGather, Algorithm::kDirect, Algorithm::kDoubling, Algorithm::kHalving,
                                      Algorithm::kExchange, Algorithm::kQuadrupling}) {
      SCOPED_TRACE(std::string(Name(algorithm)));
      for (const Numbers& output :
           Reduce(inputs, absl::StrCat("all-reduce = ", Name(algorithm), " chunk=", chunk_bytes), whole)) {
        ASSERT_TRUE(output == reference);
      }
    }
    for (int ranks_per_host = 2; ranks_per_host < size(); ++ranks_per_host) {
      if (size() % ranks_per_host != 0) continue;
      SCOPED_TRACE(absl::StrCat(ranks_per_host, " ranks a host"));
      const std::string selection = absl::StrCat("all-reduce = hierarchical chunk=", chunk_bytes);
      for (const Numbers& output : Reduce(inputs, selection, whole, ranks_per_host)) ASSERT_TRUE(output == reference);
    }
    for (const Numbers& output : Reduce(inputs, "", RandomCuts(count, count + 1))) ASSERT_TRUE(output == reference);
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16, DataType::kFloat64}) {
    for (int size = 1; size <= 9; ++size) cases.push_back({Wire::kSim, size, type});
    for (int size = 1; size <= 5; ++size) cases.push_back({Wire::kTcp, size, type});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Wires, SameBits, testing::ValuesIn(Cases()), CaseName);

}  // namespace
}  // namespace tutti
