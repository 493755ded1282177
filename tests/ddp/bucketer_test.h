// What the tests of the bucketer share. They know groups only as ProcessGroup, and run over every Backend.

#ifndef TUTTI_TESTS_DDP_BUCKETER_TEST_H_
#define TUTTI_TESTS_DDP_BUCKETER_TEST_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tutti/gradient_bucketer.h"
#include "tutti/process_group.h"

namespace tutti::testing {

// The groups of all ranks of a job, by rank.
struct Ranks {
  std::shared_ptr<void> world;  // outlives the groups
  std::vector<std::unique_ptr<ProcessGroup>> groups;
};

struct Backend {
  std::string name;
  std::function<Ranks(int world_size)> make;
};

// What the tests run over.
std::vector<Backend> Backends();

// Runs `body` on all ranks, a thread each, and waits for them.
void OnAllRanks(const Ranks& ranks, const std::function<void(ProcessGroup&)>& body);

// A parameterised suite over Backends().
class BucketerTest : public ::testing::TestWithParam<Backend> {
 protected:
  void Run(int world_size, const std::function<void(ProcessGroup&)>& body) {
    OnAllRanks(GetParam().make(world_size), body);
  }
};

#define TUTTI_INSTANTIATE_BUCKETER_TEST(suite)                                         \
  INSTANTIATE_TEST_SUITE_P(, suite, ::testing::ValuesIn(::tutti::testing::Backends()), \
                           [](const auto& test) { return test.param.name; })

// Null, and a failure of the test, if it cannot be made.
std::unique_ptr<GradientBucketer> MakeBucketer(ProcessGroup& group, std::vector<Parameter> parameters,
                                               const BucketerOptions& options = {});

// `count` parameters "p0", "p1", ... of one shape.
std::vector<Parameter> EqualParameters(int count, std::vector<int64_t> shape, DataType type = DataType::kFloat32);

// One micro-batch whose gradient is `value` in every element of the parameters 0 .. count-1; backward goes from the
// last to the first.
absl::Status MicroBatch(GradientBucketer& bucketer, int count, double value);

// A whole window: micro-batch m has gradient values[m] everywhere.
absl::StatusOr<StepReport> Step(GradientBucketer& bucketer, int count, const std::vector<double>& values,
                                const std::vector<double>& weights = {});

MATCHER_P2(IsStatus, code, text, "") {
  *result_listener << arg;
  return arg.code() == code && ::testing::Value(std::string(arg.message()), ::testing::HasSubstr(text));
}

}  // namespace tutti::testing

#endif  // TUTTI_TESTS_DDP_BUCKETER_TEST_H_
