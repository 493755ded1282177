// By what the sum of all gradients is divided. All expected values are computed by hand, next to them.
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "tests/ddp/bucketer_test.h"
#include "tests/ddp/elements.h"

namespace tutti::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

class BucketerScaleTest : public BucketerTest {
 protected:
  // The gradient of one parameter after a window in which every micro-batch of rank r has gradient values(r)[m].
  void ExpectStep(int world_size, const BucketerOptions& options, const std::function<std::vector<double>(int)>& values,
                  double gradient, double divisor) {
    Run(world_size, [&](ProcessGroup& group) {
      auto bucketer = MakeBucketer(group, EqualParameters(3, {5}), options);
      const auto report = Step(*bucketer, 3, values(group.rank()));
      ASSERT_TRUE(report.ok()) << report.status();
      EXPECT_EQ(report->divisor, divisor);
      for (int p = 0; p < 3; ++p) EXPECT_THAT(Values(bucketer->gradient(p)), Each(gradient));
    });
  }
};
TUTTI_INSTANTIATE_BUCKETER_TEST(BucketerScaleTest);

TEST_P(BucketerScaleTest, AShortLastWindowIsDividedByItsOwnMicroBatches) {
  Run(2, [](ProcessGroup& group) {
    auto bucketer = MakeBucketer(group, EqualParameters(1, {3}));
    const double r = 10 * group.rank();
    const struct {
      std::vector<double> values;
      double mean;
    } kSteps[] = {{{r + 1, r + 2}, 6.5},  // (1 + 2 + 11 + 12) / 4
                  {{r + 3, r + 4}, 8.5},  // (3 + 4 + 13 + 14) / 4
                  {{r + 5}, 10.0}};       // (5 + 15) / 2
    for (const auto& step : kSteps) {
      const auto report = Step(*bucketer, 1, step.values);
      ASSERT_TRUE(report.ok()) << report.status();
      EXPECT_THAT(Values(bucketer->gradient(0)), Each(step.mean));
      EXPECT_EQ(report->divisor, 2.0 * step.values.size());
    }
  });
}

TEST_P(BucketerScaleTest, EachModeDividesOnceByWhatItSays) {
  const auto raw = [](int) { return std::vector<double>(4, 8.0); };
  const auto scaled_by_caller = [](int) { return std::vector<double>(4, 2.0); };
  ExpectStep(4, {.scale = ScaleMode::kMean}, raw, 8, 16);                       // 128 / 16
  ExpectStep(4, {.scale = ScaleMode::kMeanOverRanks}, scaled_by_caller, 8, 4);  // 32 / 4
  ExpectStep(4, {.scale = ScaleMode::kMean}, scaled_by_caller, 2, 16);          // 32 / 16: the report shows it
  ExpectStep(4, {.scale = ScaleMode::kSum}, raw, 128, 1);
}

TEST_P(BucketerScaleTest, MicroBatchesAreSummedBeforeTheyAreReduced) {
  const auto values = [](int rank) { return rank == 0 ? std::vector<double>{1, 3} : std::vector<double>{2, 5}; };
  ExpectStep(2, {.scale = ScaleMode::kMeanOverRanks}, values, 5.5, 2);  // (4 + 7) / 2
  ExpectStep(2, {.scale = ScaleMode::kMean}, values, 2.75, 4);          // (4 + 7) / 4
}

TEST_P(BucketerScaleTest, TheSameSamplesGiveTheSameGradientHoweverTheyAreSplit) {
  const struct {
    int world_size, micro_batch, micro_batches;
  } kSplits[] = {{1, 64, 1}, {4, 16, 1}, {2, 8, 4}, {2, 2, 16}};
  const struct {
    DataType type;
    bool accumulate_in_fp32;
  } kTypes[] = {{DataType::kFloat32, false},
                {DataType::kFloat64, false},
                {DataType::kFloat16, false},
                {DataType::kFloat16, true},
                {DataType::kBFloat16, true}};
  for (const auto& split : kSplits) {
    for (const auto& type : kTypes) {
      for (const size_t bucket_bytes : {size_t{16}, size_t{1} << 20}) {
        SCOPED_TRACE(absl::StrCat(split.world_size, " ranks, ", Name(type.type), ", buckets of ", bucket_bytes));
        Run(split.world_size, [&](ProcessGroup& group) {
          auto bucketer = MakeBucketer(group, EqualParameters(3, {2}, type.type),
                                       {.accumulate_in_fp32 = type.accumulate_in_fp32, .bucket_bytes = bucket_bytes});
          std::vector<double> means;
          for (int a = 0; a < split.micro_batches; ++a) {
            const int first = (group.rank() * split.micro_batches + a) * split.micro_batch;
            means.push_back(first + (split.micro_batch - 1) / 2.0);  // of the samples first, first + 1, ...
          }
          ASSERT_TRUE(Step(*bucketer, 3, means).ok());
          for (int p = 0; p < 3; ++p) EXPECT_THAT(Values(bucketer->gradient(p)), Each(31.5));  // 2016 / 64
        });
      }
    }
  }
}

TEST_P(BucketerScaleTest, WeightsDivideBySumOfWeightsOfAllRanks) {
  Run(2, [](ProcessGroup& group) {
    auto bucketer = MakeBucketer(group, EqualParameters(2, {3}), {.scale = ScaleMode::kWeighted});
    // Losses are sums over 3, 1 tokens on rank 0 and 0, 4 on rank 1.
    const auto report = group.rank() == 0 ? Step(*bucketer, 2, {6, 2}, {3, 1}) : Step(*bucketer, 2, {0, 8}, {0, 4});
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->divisor, 8);
    EXPECT_FALSE(report->zero_weight);
    EXPECT_THAT(Values(bucketer->gradient(1)), Each(2.0));  // (6 + 2 + 0 + 8) / 8
  });
}

TEST_P(BucketerScaleTest, AZeroTotalWeightGivesZeroGradientsAndAVerdict) {
  for (const bool accumulate : {false, true}) {
    Run(2, [&](ProcessGroup& group) {
      auto bucketer = MakeBucketer(group, EqualParameters(2, {3}, DataType::kFloat16),
                                   {.scale = ScaleMode::kWeighted, .accumulate_in_fp32 = accumulate});
      const auto empty = Step(*bucketer, 2, {1, 2}, {0, 0});
      ASSERT_TRUE(empty.ok()) << empty.status();
      EXPECT_TRUE(empty->zero_weight);
      EXPECT_EQ(empty->divisor, 0);
      EXPECT_EQ(empty->collectives, 0);
      for (int p = 0; p < 2; ++p) EXPECT_THAT(Values(bucketer->gradient(p)), Each(0.0));
      const auto next = Step(*bucketer, 2, {4}, {2});
      ASSERT_TRUE(next.ok()) << next.status();
      EXPECT_FALSE(next->zero_weight);
      EXPECT_THAT(Values(bucketer->gradient(0)), Each(2.0));  // (4 + 4) / (2 + 2)
    });
  }
}

TEST_P(BucketerScaleTest, WeightsThatDoNotFitAreRefusedAndChangeNothing) {
  Run(1, [](ProcessGroup& group) {
    auto weighted = MakeBucketer(group, EqualParameters(1, {3}), {.scale = ScaleMode::kWeighted});
    const struct {
      std::vector<double> weights;
      const char* message;
    } kWrong[] = {{{}, "0 weights for 2 micro-batches"},
                  {{1}, "1 weights for 2"},
                  {{1, 2, 3}, "3 weights for 2"},
                  {{1, -2}, "micro-batch 2 is -2"},
                  {{std::nan(""), 1}, "micro-batch 1 is nan"},
                  {{1, INFINITY}, "micro-batch 2 is inf"}};
    for (const auto& wrong : kWrong) {
      EXPECT_THAT(weighted->BeginWindow({.micro_batches = 2, .weights = wrong.weights}),
                  IsStatus(absl::StatusCode::kInvalidArgument, wrong.message));
      EXPECT_EQ(weighted->pending_micro_batches(), 0);
    }
    EXPECT_TRUE(Step(*weighted, 1, {1, 2}, {1, 2}).ok());
    auto mean = MakeBucketer(group, EqualParameters(1, {3}));
    EXPECT_THAT(mean->BeginWindow({.micro_batches = 1, .weights = {1}}),
                IsStatus(absl::StatusCode::kInvalidArgument, "not mean"));
  });
}

TEST_P(BucketerScaleTest, ATotalWeightThatFp32CannotDivideByIsAnErrorOnAllRanks) {
  for (const double weight : {1e-60, 1e300}) {
    Run(2, [&](ProcessGroup& group) {
      auto bucketer = MakeBucketer(group, EqualParameters(1, {3}), {.scale = ScaleMode::kWeighted});
      const absl::Status status = Step(*bucketer, 1, {1}, {weight}).status();
      EXPECT_THAT(std::string(status.message()), HasSubstr("outside the range of float32"));
    });
  }
}

TEST_P(BucketerScaleTest, MicroBatchCountsThatDifferAreAnErrorOnAllRanks) {
  for (const ScaleMode mode : {ScaleMode::kMean, ScaleMode::kWeighted}) {
    Run(3, [&](ProcessGroup& group) {
      auto bucketer = MakeBucketer(group, EqualParameters(1, {3}), {.scale = mode});
      const size_t count = group.rank() == 2 ? 5 : 4;
      const auto report = Step(*bucketer, 1, std::vector<double>(count, 1.0),
                               std::vector<double>(mode == ScaleMode::kWeighted ? count : 0, 1.0));
      ASSERT_FALSE(report.ok());
      const std::string message(report.status().message());
      EXPECT_THAT(message, HasSubstr("rank 0"));
      EXPECT_THAT(message, HasSubstr("rank 2"));
      // kMean: by the divisor, 3 * 4 against 3 * 5.
      EXPECT_THAT(message, HasSubstr(mode == ScaleMode::kMean ? "15" : "5"));
      EXPECT_THAT(bucketer->BeginWindow(), IsStatus(absl::StatusCode::kFailedPrecondition, "cannot be used any more"));
    });
  }
}

TEST_P(BucketerScaleTest, SixteenBitSumsNeitherOverflowNorUnderflow) {
  const double tiny = std::ldexp(1, -24);  // the smallest float16
  const struct {
    DataType type;
    std::vector<double> by_rank;
    double mean;
  } kCases[] = {{DataType::kFloat16, std::vector<double>(8, 16384), 16384},
                {DataType::kFloat16, std::vector<double>(8, tiny), tiny},
                {DataType::kFloat16, {60000, 60000, -60000, -60000}, 0},
                {DataType::kFloat16, {60000, -60000, 60000, -60000}, 0},
                {DataType::kBFloat16, std::vector<double>(8, 16384), 16384},
                {DataType::kBFloat16, std::vector<double>(8, tiny), tiny}};
  for (const auto& c : kCases) {
    for (const bool accumulate : {false, true}) {
      Run(static_cast<int>(c.by_rank.size()), [&](ProcessGroup& group) {
        auto bucketer = MakeBucketer(group, EqualParameters(2, {3}, c.type), {.accumulate_in_fp32 = accumulate});
        ASSERT_TRUE(Step(*bucketer, 2, {c.by_rank[group.rank()]}).ok());
        EXPECT_THAT(Values(bucketer->gradient(0)), Each(c.mean));
      });
    }
  }
}

TEST_P(BucketerScaleTest, AHalfSumThatIsTooLargeIsInfiniteOnAllRanks) {
  Run(8, [](ProcessGroup& group) {
    auto bucketer = MakeBucketer(group, EqualParameters(1, {3}, DataType::kFloat16), {.scale = ScaleMode::kSum});
    ASSERT_TRUE(Step(*bucketer, 1, {16384}).ok());
    EXPECT_THAT(Values(bucketer->gradient(0)), Each(INFINITY));
  });
}

TEST_P(BucketerScaleTest, AccumulatingInFp32KeepsWhatSixteenBitsWouldLose) {
  const struct {
    DataType type;
    double large, result_in_16_bits;
  } kCases[] = {{DataType::kFloat16, 2048, 2048}, {DataType::kBFloat16, 256, 256}};
  for (const auto& c : kCases) {
    for (const bool accumulate : {false, true}) {
      Run(2, [&](ProcessGroup& group) {
        auto bucketer = MakeBucketer(group, EqualParameters(2, {3}, c.type),
                                     {.scale = ScaleMode::kMeanOverRanks, .accumulate_in_fp32 = accumulate});
        // large + 1 is a tie in 16 bits and goes back to the even large, four times.
        ASSERT_TRUE(Step(*bucketer, 2, {c.large, 1, 1, 1, 1}).ok());
        EXPECT_THAT(Values(bucketer->gradient(1)), Each(accumulate ? c.large + 4 : c.result_in_16_bits));
        // And nothing of it leaks into the next window.
        ASSERT_TRUE(Step(*bucketer, 2, {1}).ok());
        EXPECT_THAT(Values(bucketer->gradient(1)), Each(1.0));
      });
    }
  }
}

}  // namespace
}  // namespace tutti::testing
