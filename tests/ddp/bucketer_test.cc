#include "tests/ddp/bucketer_test.h"

#include <thread>

#include "absl/strings/str_cat.h"
#include "src/base/status_macros.h"
#include "tests/ddp/elements.h"
#include "tests/ddp/fake_group.h"

namespace tutti::testing {

std::vector<Backend> Backends() {
  const auto make_fake = [](int world_size) {
    auto world = std::make_shared<FakeWorld>(world_size);
    Ranks ranks = {.world = world, .groups = {}};
    for (int rank = 0; rank < world_size; ++rank) ranks.groups.push_back(world->MakeGroup(rank));
    return ranks;
  };
  return {{"Fake", make_fake}};
}

void OnAllRanks(const Ranks& ranks, const std::function<void(ProcessGroup&)>& body) {
  std::vector<std::thread> threads;
  for (const auto& group : ranks.groups) threads.emplace_back([&body, &group] { body(*group); });
  for (std::thread& thread : threads) thread.join();
}

std::unique_ptr<GradientBucketer> MakeBucketer(ProcessGroup& group, std::vector<Parameter> parameters,
                                               const BucketerOptions& options) {
  auto bucketer = GradientBucketer::Create(group, std::move(parameters), options);
  if (bucketer.ok()) return *std::move(bucketer);
  ADD_FAILURE() << "rank " << group.rank() << ": " << bucketer.status();
  return nullptr;
}

std::vector<Parameter> EqualParameters(int count, std::vector<int64_t> shape, DataType type) {
  std::vector<Parameter> parameters;
  for (int i = 0; i < count; ++i) parameters.push_back({.name = absl::StrCat("p", i), .shape = shape, .type = type});
  return parameters;
}

absl::Status MicroBatch(GradientBucketer& bucketer, int count, double value) {
  TUTTI_RETURN_IF_ERROR(bucketer.BeginMicroBatch());
  for (int p = count; p-- > 0;) {
    AddTo(bucketer.gradient(p), value);
    TUTTI_RETURN_IF_ERROR(bucketer.MarkReady(p));
  }
  return absl::OkStatus();
}

absl::StatusOr<StepReport> Step(GradientBucketer& bucketer, int count, const std::vector<double>& values,
                                const std::vector<double>& weights) {
  TUTTI_RETURN_IF_ERROR(bucketer.BeginWindow({.micro_batches = static_cast<int>(values.size()), .weights = weights}));
  for (const double value : values) TUTTI_RETURN_IF_ERROR(MicroBatch(bucketer, count, value));
  return bucketer.Finish();
}

}  // namespace tutti::testing
