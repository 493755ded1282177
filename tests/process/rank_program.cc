// One rank of the jobs in job_test.cc: does what its scenario says, and prints one line,
//   status <code> after <seconds> s: <message>
// Exits with 0 if that is OK, else with 1.

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "tutti/tutti.h"

namespace {

using tutti::ProcessGroup;

constexpr size_t kLarge = (64 << 20) / sizeof(float);

struct Outcome {
  absl::Status status;
  absl::Duration elapsed;  // of the operation that ended with it
};

Outcome Timed(const std::function<absl::Status()>& operation) {
  const absl::Time start = absl::Now();
  absl::Status status = operation();
  return {std::move(status), absl::Now() - start};
}

// All-reduces until one fails, at most 50; `disturb` is called with the third in flight.
Outcome LargeAllReduces(ProcessGroup& group, absl::Duration timeout, const std::function<void()>& disturb) {
  std::vector<float> data(kLarge, 1.0f);
  for (int i = 0; i < 50; ++i) {
    Outcome outcome = Timed([&] {
      tutti::Work work =
          group.AllReduce(absl::MakeSpan(data), {.op = tutti::ReduceOp::kMax, .timeout = timeout, .background = true});
      if (i == 2) disturb();
      return work.Wait();
    });
    if (!outcome.status.ok()) return outcome;
  }
  return {absl::OkStatus(), absl::ZeroDuration()};
}

Outcome Killed(ProcessGroup& group) {
  return LargeAllReduces(group, absl::Seconds(60), [&] {
    if (group.rank() == 1) kill(getpid(), SIGKILL);
  });
}

Outcome Stopped(ProcessGroup& group) {
  return LargeAllReduces(group, absl::Seconds(3), [&] {
    if (group.rank() == 2) kill(getpid(), SIGSTOP);
  });
}

// One mismatch each, after an operation that works; rank 1 is the odd one.
absl::Status Mismatch(ProcessGroup& group, const std::string& kind) {
  std::vector<float> data(409600, 1.0f);
  const absl::Span<float> all = absl::MakeSpan(data);
  const bool odd = group.rank() == 1;
  if (kind == "count") return group.AllReduce(odd ? all.first(409598) : all).Wait();
  if (kind == "type") {
    return group.AllReduce(tutti::Tensor(data.data(), 100, odd ? tutti::DataType::kInt32 : tutti::DataType::kFloat32))
        .Wait();
  }
  if (kind == "op") {
    return group.AllReduce(all.first(8), {.op = odd ? tutti::ReduceOp::kMax : tutti::ReduceOp::kSum}).Wait();
  }
  if (kind == "divisor") return group.AllReduce(all.first(8), {.divisor = odd ? 2.0 : 4.0}).Wait();
  absl::Status status;
  if (kind == "root") {
    status = group.Broadcast(all.first(8), odd ? 1 : 0).Wait();
  } else if (kind == "order") {
    status = odd ? group.Barrier().Wait() : group.AllReduce(all.first(4)).Wait();
    if (status.ok()) status = odd ? group.AllReduce(all.first(4)).Wait() : group.Barrier().Wait();
  }
  // A rank that only sent learns of it by its next operation.
  return status.ok() ? group.Barrier().Wait() : status;
}

Outcome RunScenario(ProcessGroup& group, const std::string& scenario) {
  if (scenario == "killed") return Killed(group);
  if (scenario == "stopped") return Stopped(group);
  if (scenario == "sum") {
    return Timed([&] {
      std::vector<float> data(1000, static_cast<float>(group.rank()));
      absl::Status status = group.AllReduce(absl::MakeSpan(data)).Wait();
      const auto expected = static_cast<float>(group.size() * (group.size() - 1) / 2);
      if (status.ok() && data[999] != expected) status = absl::DataLossError("wrong sum");
      return status;
    });
  }
  if (scenario == "abort") {
    if (group.rank() == 1) group.Abort(absl::InternalError("loss is NaN"));
    return Timed([&] {
      absl::Status status;
      while (status.ok()) status = group.Barrier().Wait();
      return status;
    });
  }
  if (scenario == "leave") {
    if (group.rank() == 1) return {absl::OkStatus(), absl::ZeroDuration()};
    return Timed([&] { return group.Barrier().Wait(); });
  }
  absl::Status ready = group.Barrier().Wait();
  if (!ready.ok()) return {ready, absl::ZeroDuration()};
  return Timed([&] { return Mismatch(group, scenario); });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  absl::StatusOr<std::unique_ptr<ProcessGroup>> group = ProcessGroup::Create();
  const Outcome outcome = group.ok() ? RunScenario(**group, argv[1]) : Outcome{group.status(), absl::ZeroDuration()};
  std::printf("status %s after %.3f s: %s\n", absl::StatusCodeToString(outcome.status.code()).c_str(),
              absl::ToDoubleSeconds(outcome.elapsed), std::string(outcome.status.message()).c_str());
  std::fflush(stdout);
  return outcome.status.ok() ? 0 : 1;
}
