// What a caller passes wrongly is refused by name on its own rank, before anything is sent; the group goes on.

#include <sys/wait.h>
#include <unistd.h>

#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/groups.h"
#include "tutti/process_group.h"

namespace tutti {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class GroupArguments : public testing::Test {
 protected:
  ProcessGroup& group() { return groups_[0]; }

  void ExpectInvalid(Work work, const testing::Matcher<const std::string&>& message) {
    const absl::Status status = work.Wait();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), message);
    EXPECT_EQ(group().status(), absl::OkStatus());
  }

  TestGroups groups_ = MakeGroups(Wire::kSim, 2);
  std::vector<float> x_ = std::vector<float>(8);
  std::vector<float> y_ = std::vector<float>(8);
};

TEST_F(GroupArguments, UnknownCodesAreNamedByNumber) {
  Tensor data(absl::MakeSpan(x_));
  ExpectInvalid(group().AllReduce(data, {.op = static_cast<ReduceOp>(99)}),
                AllOf(HasSubstr("all-reduce"), HasSubstr("99")));
  ExpectInvalid(group().AllReduce(data, {.op = static_cast<ReduceOp>(-1)}), HasSubstr("255"));
  ExpectInvalid(group().AllReduce(Tensor(x_.data(), 8, static_cast<DataType>(77))), HasSubstr("77"));
}

TEST_F(GroupArguments, OperatorsThatTheTypeDoesNotHave) {
  ExpectInvalid(group().AllReduce(absl::MakeSpan(x_), {.op = ReduceOp::kBitXor}),
                AllOf(HasSubstr("bit-xor"), HasSubstr("float32")));
  bool flags[4] = {};
  ExpectInvalid(group().AllReduce(absl::MakeSpan(flags), {.op = ReduceOp::kAverage}), HasSubstr("bool"));
}

TEST_F(GroupArguments, DivisorsThatCannotBe) {
  for (const double divisor :
       {0.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    ExpectInvalid(group().AllReduce(absl::MakeSpan(x_), {.divisor = divisor}), HasSubstr("divisor"));
  }
  ExpectInvalid(group().AllReduce(absl::MakeSpan(x_), {.op = ReduceOp::kMax, .divisor = 2}), HasSubstr("divisor"));
  std::vector<int> whole(4);
  ExpectInvalid(group().AllReduce(absl::MakeSpan(whole), {.divisor = 1.5}), HasSubstr("1.5"));
}

TEST_F(GroupArguments, CountsAndTypesThatDoNotFit) {
  ExpectInvalid(group().AllReduce(absl::MakeConstSpan(x_).first(7), absl::MakeSpan(y_)),
                AllOf(HasSubstr("7"), HasSubstr("8")));
  ExpectInvalid(group().AllGather(absl::MakeConstSpan(x_), absl::MakeSpan(y_)),
                AllOf(HasSubstr("output"), HasSubstr("16")));
  ExpectInvalid(group().ReduceScatter(absl::MakeConstSpan(x_), absl::MakeSpan(y_)), HasSubstr("input"));
  std::vector<double> z(16);
  ExpectInvalid(group().AllGather(absl::MakeConstSpan(x_), absl::MakeSpan(z)),
                AllOf(HasSubstr("float32"), HasSubstr("float64")));
}

TEST_F(GroupArguments, MemoryThatOverlapsOrIsMissing) {
  ExpectInvalid(group().AllReduce(absl::MakeConstSpan(x_).first(6), absl::MakeSpan(x_).last(6)), HasSubstr("overlap"));
  ExpectInvalid(group().AllGather(absl::MakeConstSpan(x_).last(4), absl::MakeSpan(x_)), HasSubstr("overlap"));
  ExpectInvalid(group().AllReduce(Tensor(nullptr, 3, DataType::kFloat32)), AllOf(HasSubstr("data"), HasSubstr("null")));
  ExpectInvalid(group().AllReduce(Tensor(x_.data(), SIZE_MAX / 2, DataType::kFloat32)), HasSubstr("elements"));
}

TEST_F(GroupArguments, RanksAndDevicesThatAreNotThere) {
  ExpectInvalid(group().Broadcast(absl::MakeSpan(x_), 2), AllOf(HasSubstr("root 2"), HasSubstr("0 to 1")));
  ExpectInvalid(group().Send(absl::MakeConstSpan(x_), -1), HasSubstr("-1"));
  ExpectInvalid(group().Recv(absl::MakeSpan(x_), 0), HasSubstr("itself"));
  ExpectInvalid(group().AllReduce(Tensor(x_.data(), 8, DataType::kFloat32, {Device::Type::kCuda, 3})),
                HasSubstr("CUDA device 3"));
}

TEST_F(GroupArguments, AllocatedMemoryIsZeroAndTooMuchIsRefused) {
  absl::StatusOr<Buffer> buffer = group().Allocate(5 << 20);
  ASSERT_TRUE(buffer.ok());
  for (const float x : buffer->tensor(0, (5 << 20) / 4, DataType::kFloat32).as<float>()) ASSERT_EQ(x, 0);
  EXPECT_EQ(group().Allocate(size_t{1} << 60).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(group().Allocate(0)->bytes(), 0u);
}

TEST_F(GroupArguments, AForkedChildIsToldSoAndDoesNoHarm) {
  const pid_t child = fork();
  if (child == 0) {
    const absl::Status status = group().AllReduce(absl::MakeSpan(x_)).Wait();
    const bool right = status.code() == absl::StatusCode::kFailedPrecondition &&
                       status.message().find("forked") != absl::string_view::npos;
    groups_.ranks.clear();  // the destructors of a child touch nothing of the parent's
    _exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  OnEachRank(2, [&](int rank) {
    std::vector<float> data = {1, 2};
    EXPECT_EQ(groups_[rank].AllReduce(absl::MakeSpan(data)).Wait(), absl::OkStatus());
    EXPECT_EQ(data[1], 4);
  });
}

}  // namespace
}  // namespace tutti
