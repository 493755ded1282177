// The bucketer over real groups: the scale contract and the same bits, from the gradients to the wire and back.

#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/groups.h"
#include "tests/support/numbers.h"
#include "tutti/gradient_bucketer.h"

namespace tutti {
namespace {

constexpr size_t kBytesOfManyBuckets = 64;

class BucketerOverGroups : public testing::TestWithParam<Wire> {};

std::string WireName(const testing::TestParamInfo<Wire>& wire) { return Name(wire.param); }

std::unique_ptr<GradientBucketer> MakeBucketer(ProcessGroup& group, std::vector<Parameter> parameters,
                                               const BucketerOptions& options) {
  absl::StatusOr<std::unique_ptr<GradientBucketer>> bucketer =
      GradientBucketer::Create(group, std::move(parameters), options);
  EXPECT_TRUE(bucketer.ok()) << bucketer.status();
  return *std::move(bucketer);
}

// Adds `value` to every element, as a backward pass does.
void Accumulate(Tensor gradient, double value) {
  const auto add = [&](auto element, auto to_double) {
    for (auto& x : gradient.as<decltype(element)>()) {
      const Numbers sum = Numbers::Constant(gradient.type(), 1, to_double(x) + value);
      x = *static_cast<const decltype(element)*>(sum.tensor().data());
    }
  };
  add(float{}, [](float x) { return double{x}; });
  add(double{}, [](double x) { return x; });
  add(Float16{}, [](Float16 x) { return ValueOfFloat16(x.bits); });
  add(BFloat16{}, [](BFloat16 x) { return ValueOfBFloat16(x.bits); });
}

struct Split {
  int ranks, micro_batch, accumulation;
};

// 64 samples with gradients 0 to 63; a micro-batch's gradient is the mean of its samples.
double MicroBatchGradient(const Split& split, int rank, int index) {
  const int first = (rank * split.accumulation + index) * split.micro_batch;
  return first + (split.micro_batch - 1) / 2.0;
}

TEST_P(BucketerOverGroups, TheGradientDoesNotDependOnHowTheBatchIsSplit) {
  for (const Split& split : {Split{1, 64, 1}, Split{4, 16, 1}, Split{2, 8, 4}, Split{2, 2, 16}}) {
    TestGroups groups = MakeGroups(GetParam(), split.ranks);
    for (const DataType type : {DataType::kFloat16, DataType::kBFloat16, DataType::kFloat32, DataType::kFloat64}) {
      for (const size_t bucket_bytes : {BucketerOptions{}.bucket_bytes, kBytesOfManyBuckets}) {
        SCOPED_TRACE(testing::Message() << split.ranks << " ranks, " << split.accumulation << " micro-batches, "
                                        << Name(type) << ", buckets of " << bucket_bytes);
        OnEachRank(split.ranks, [&](int rank) {
          // bfloat16 holds the sums of 16 micro-batches only if they are added up in fp32.
          auto bucketer = MakeBucketer(groups[rank], {{"a", {3, 5}, type}, {"b", {100}, type}, {"c", {1}, type}},
                                       {.accumulate_in_fp32 = ByteSize(type) == 2, .bucket_bytes = bucket_bytes});
          ASSERT_EQ(bucketer->BeginWindow({.micro_batches = split.accumulation}), absl::OkStatus());
          for (int i = 0; i < split.accumulation; ++i) {
            ASSERT_EQ(bucketer->BeginMicroBatch(), absl::OkStatus());
            for (int p = 2; p >= 0; --p) {
              Accumulate(bucketer->gradient(p), MicroBatchGradient(split, rank, i));
              ASSERT_EQ(bucketer->MarkReady(p), absl::OkStatus());
            }
          }
          const absl::StatusOr<StepReport> report = bucketer->Finish();
          ASSERT_TRUE(report.ok()) << report.status();
          EXPECT_EQ(report->divisor, split.ranks * split.accumulation);
          const Numbers expected = Numbers::Constant(type, 100, 31.5);
          for (int p = 0; p < 3; ++p) {
            const Tensor gradient = bucketer->gradient(p);
            EXPECT_EQ(std::memcmp(gradient.data(), expected.tensor().data(), gradient.bytes()), 0) << "parameter " << p;
          }
        });
      }
    }
  }
}

TEST_P(BucketerOverGroups, BucketsDoNotChangeTheBits) {
  for (const int size : {2, 3, 5}) {
    TestGroups groups = MakeGroups(GetParam(), size);
    for (const DataType type : {DataType::kFloat16, DataType::kBFloat16, DataType::kFloat32, DataType::kFloat64}) {
      SCOPED_TRACE(testing::Message() << size << " ranks of " << Name(type));
      OnEachRank(size, [&](int rank) {
        const Numbers input = Numbers::Random(type, 10007, static_cast<uint64_t>(rank) + 1);
        Numbers expected(type, input.count());
        ASSERT_EQ(
            groups[rank].AllReduce(input.tensor(), expected.tensor(), {.divisor = static_cast<double>(size)}).Wait(),
            absl::OkStatus());
        for (const size_t bucket_bytes : {size_t{1} << 20, size_t{1} << 10, size_t{1000}}) {
          auto bucketer = MakeBucketer(groups[rank], {{"all", {10007}, type}}, {.bucket_bytes = bucket_bytes});
          ASSERT_EQ(bucketer->BeginWindow(), absl::OkStatus());
          std::memcpy(bucketer->gradient(0).data(), input.tensor().data(), input.tensor().bytes());
          ASSERT_EQ(bucketer->BeginMicroBatch(), absl::OkStatus());
          ASSERT_EQ(bucketer->MarkReady(0), absl::OkStatus());
          ASSERT_TRUE(bucketer->Finish().ok());
          EXPECT_EQ(std::memcmp(bucketer->gradient(0).data(), expected.tensor().data(), expected.tensor().bytes()), 0)
              << bucket_bytes;
        }
      });
    }
  }
}

TEST_P(BucketerOverGroups, AnotherNumberOfMicroBatchesIsAMismatch) {
  TestGroups groups = MakeGroups(GetParam(), 2, {.timeout = absl::Seconds(10)});
  std::vector<absl::Status> statuses(2);
  OnEachRank(2, [&](int rank) {
    auto bucketer = MakeBucketer(groups[rank], {{"a", {100}}}, {});
    const int micro_batches = rank + 1;
    ASSERT_EQ(bucketer->BeginWindow({.micro_batches = micro_batches}), absl::OkStatus());
    for (int i = 0; i < micro_batches; ++i) {
      ASSERT_EQ(bucketer->BeginMicroBatch(), absl::OkStatus());
      ASSERT_EQ(bucketer->MarkReady(0), absl::OkStatus());
    }
    statuses[static_cast<size_t>(rank)] = bucketer->Finish().status();
  });
  for (const absl::Status& status : statuses) EXPECT_FALSE(status.ok());
  EXPECT_TRUE(statuses[0].code() == absl::StatusCode::kFailedPrecondition ||
              statuses[1].code() == absl::StatusCode::kFailedPrecondition);
}

INSTANTIATE_TEST_SUITE_P(Wires, BucketerOverGroups, testing::Values(Wire::kSim, Wire::kTcp, Wire::kShm), WireName);

}  // namespace
}  // namespace tutti
