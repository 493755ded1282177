// How gradients are cut into buckets: seen in the counter of collectives, and in no bit of the results.
#include <cmath>
#include <random>

#include "tests/ddp/bucketer_test.h"
#include "tests/ddp/elements.h"

namespace tutti::testing {
namespace {

using ::testing::Each;
using ::testing::SizeIs;

class BucketerLayoutTest : public BucketerTest {};
TUTTI_INSTANTIATE_BUCKETER_TEST(BucketerLayoutTest);

TEST_P(BucketerLayoutTest, TenThousandTinyParametersTakeAsManyCollectivesAsTheCapSays) {
  constexpr int kCount = 10000;
  const struct {
    size_t bucket_bytes;
    int collectives;
  } kCases[] = {{size_t{25} << 20, 1}, {1024, 157}};  // 64 parameters of 16 bytes fill 1024; 10000 / 64 = 156.25
  for (const auto& c : kCases) {
    Run(2, [&](ProcessGroup& group) {
      auto bucketer = MakeBucketer(group, EqualParameters(kCount, {4}), {.bucket_bytes = c.bucket_bytes});
      const auto report = Step(*bucketer, kCount, {group.rank() + 1.0});
      ASSERT_TRUE(report.ok()) << report.status();
      EXPECT_EQ(report->collectives, c.collectives);
      EXPECT_EQ(report->bytes, 160000u);
      EXPECT_THAT(report->buckets, SizeIs(c.collectives));
      for (int p = 0; p < kCount; ++p) ASSERT_THAT(Values(bucketer->gradient(p)), Each(1.5));
    });
  }
}

TEST_P(BucketerLayoutTest, ATensorAboveTheCapIsCutButItsViewIsNot) {
  Run(2, [](ProcessGroup& group) {
    auto bucketer = MakeBucketer(
        group, {{.name = "before", .shape = {3}}, {.name = "large", .shape = {1000}}, {.name = "after", .shape = {3}}},
        {.bucket_bytes = 1024});
    ASSERT_TRUE(bucketer->BeginWindow().ok());
    ASSERT_TRUE(bucketer->BeginMicroBatch().ok());
    const auto large = bucketer->gradient(1).as<float>();
    ASSERT_EQ(large.size(), 1000u);
    for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<float>(i) + group.rank();
    for (const int p : {2, 1, 0}) ASSERT_TRUE(bucketer->MarkReady(p).ok());
    const auto report = bucketer->Finish();
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->collectives, 6);  // 4000 bytes are 4 buckets of at most 1024, and one on each side
    for (const BucketReport& bucket : report->buckets) EXPECT_LE(bucket.bytes, 1024u);
    for (size_t i = 0; i < large.size(); ++i) EXPECT_EQ(large[i], static_cast<float>(i) + 0.5f);
  });
}

TEST_P(BucketerLayoutTest, TypesAreReducedApart) {
  Run(2, [](ProcessGroup& group) {
    const std::vector<DataType> types = {DataType::kFloat32, DataType::kFloat16, DataType::kFloat64,
                                         DataType::kBFloat16, DataType::kFloat32};
    std::vector<Parameter> parameters;
    for (size_t p = 0; p < types.size(); ++p) {
      parameters.push_back({.name = std::to_string(p), .shape = {3}, .type = types[p]});
    }
    auto bucketer = MakeBucketer(group, parameters);
    const auto report = Step(*bucketer, 5, {group.rank() + 2.0});
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->collectives, 4);
    EXPECT_EQ(report->bytes, 3u * (4 + 2 + 8 + 2 + 4));
    for (int p = 0; p < 5; ++p) {
      EXPECT_EQ(bucketer->gradient(p).type(), types[p]);
      EXPECT_THAT(Values(bucketer->gradient(p)), Each(2.5));
    }
  });
}

// Random gradients of many magnitudes, in which every order of summation has its own bits.
std::vector<std::vector<uint8_t>> ReducedBits(GradientBucketer& bucketer, int count, int rank) {
  std::mt19937 random(1000 + rank);
  std::normal_distribution<double> mantissa;
  std::uniform_int_distribution<int> exponent(-6, 6);
  EXPECT_TRUE(bucketer.BeginWindow({.micro_batches = 2}).ok());
  for (int m = 0; m < 2; ++m) {
    EXPECT_TRUE(bucketer.BeginMicroBatch().ok());
    for (int p = count; p-- > 0;) {
      const Tensor view = bucketer.gradient(p);
      for (size_t i = 0; i < view.count(); ++i) {
        const double value = std::ldexp(mantissa(random), exponent(random));
        Store(view.type(), view.data(), i, Load(view.type(), view.data(), i) + value);
      }
      EXPECT_TRUE(bucketer.MarkReady(p).ok());
    }
  }
  EXPECT_TRUE(bucketer.Finish().ok());
  std::vector<std::vector<uint8_t>> bits;
  for (int p = 0; p < count; ++p) bits.push_back(Bytes(bucketer.gradient(p)));
  return bits;
}

TEST_P(BucketerLayoutTest, BitsAreTheSameOnAllRanksForAllBucketsAndInEveryRun) {
  constexpr int kWorldSize = 4;
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
    for (const bool accumulate : {false, true}) {
      std::vector<std::vector<std::vector<uint8_t>>> bits;
      for (const size_t bucket_bytes : {size_t{64}, size_t{1024}, size_t{25} << 20, size_t{1024}}) {
        std::vector<std::vector<std::vector<uint8_t>>> by_rank(kWorldSize);
        Run(kWorldSize, [&](ProcessGroup& group) {
          auto bucketer = MakeBucketer(group, EqualParameters(20, {37}, type),
                                       {.accumulate_in_fp32 = accumulate, .bucket_bytes = bucket_bytes});
          by_rank[group.rank()] = ReducedBits(*bucketer, 20, group.rank());
        });
        bits.insert(bits.end(), by_rank.begin(), by_rank.end());
      }
      for (const auto& other : bits) EXPECT_EQ(other, bits[0]) << Name(type) << (accumulate ? " in fp32" : "");
    }
  }
}

TEST_P(BucketerLayoutTest, CancellationGivesOneResultOnAllRanks) {
  // Exactly 2; ((1e8 + 1) + (-1e8 + 1)) = 0 in the tree of 4 ranks. The position in a large tensor does not matter.
  constexpr float kByRank[] = {1e8f, 1, -1e8f, 1};
  for (const size_t bucket_bytes : {size_t{1024}, size_t{25} << 20}) {
    Run(4, [&](ProcessGroup& group) {
      auto bucketer =
          MakeBucketer(group, EqualParameters(2, {5003}), {.scale = ScaleMode::kSum, .bucket_bytes = bucket_bytes});
      ASSERT_TRUE(Step(*bucketer, 2, {kByRank[group.rank()]}).ok());
      for (int p = 0; p < 2; ++p) EXPECT_THAT(Values(bucketer->gradient(p)), Each(0.0));
    });
  }
}

}  // namespace
}  // namespace tutti::testing
