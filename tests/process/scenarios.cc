#include "tests/process/scenarios.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace tutti {
namespace {

constexpr size_t kLarge = (64 << 20) / sizeof(float);

enum class Memory { kOwn, kLibrary };

// All-reduces until one fails, at most 50; `disturb` is called with the third in flight.
Outcome LargeAllReduces(ProcessGroup& group, Memory memory, absl::Duration timeout,
                        const std::function<void()>& disturb) {
  std::vector<float> own(memory == Memory::kOwn ? kLarge : 0);
  absl::StatusOr<Buffer> buffer = group.Allocate(memory == Memory::kLibrary ? kLarge * sizeof(float) : 0);
  if (!buffer.ok()) return {buffer.status(), absl::ZeroDuration()};
  const Tensor data =
      memory == Memory::kOwn ? Tensor(absl::MakeSpan(own)) : buffer->tensor(0, kLarge, DataType::kFloat32);
  for (int i = 0; i < 50; ++i) {
    Outcome outcome = Timed([&] {
      Work work = group.AllReduce(data, {.op = ReduceOp::kMax, .timeout = timeout, .background = true});
      if (i == 2) disturb();
      return work.Wait();
    });
    if (!outcome.status.ok()) return outcome;
  }
  return {absl::OkStatus(), absl::ZeroDuration()};
}

Outcome Killed(ProcessGroup& group, Memory memory) {
  return LargeAllReduces(group, memory, absl::Seconds(60), [&] {
    if (group.rank() == 1) kill(getpid(), SIGKILL);
  });
}

Outcome Stopped(ProcessGroup& group, Memory memory) {
  return LargeAllReduces(group, memory, absl::Seconds(3), [&] {
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
    return group.AllReduce(Tensor(data.data(), 100, odd ? DataType::kInt32 : DataType::kFloat32)).Wait();
  }
  if (kind == "op") {
    return group.AllReduce(all.first(8), {.op = odd ? ReduceOp::kMax : ReduceOp::kSum}).Wait();
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

Outcome Sum(ProcessGroup& group) {
  return Timed([&] { return CheckSum(group, 1000); });
}

Outcome Abort(ProcessGroup& group) {
  if (group.rank() == 1) group.Abort(absl::InternalError("loss is NaN"));
  return Timed([&] {
    absl::Status status;
    while (status.ok()) status = group.Barrier().Wait();
    return status;
  });
}

Outcome Leave(ProcessGroup& group) {
  if (group.rank() == 1) return {absl::OkStatus(), absl::ZeroDuration()};
  return Timed([&] { return group.Barrier().Wait(); });
}

// Ranks 1 and 3 do not come to the barrier: they wait for something else.
Outcome Absent(ProcessGroup& group) {
  absl::Status status = CheckSum(group, 10);
  if (!status.ok()) return {status, absl::ZeroDuration()};
  return Timed([&] {
    float never = 0;
    if (group.rank() % 2 == 1) return group.Recv(absl::MakeSpan(&never, 1), 0).Wait();
    return group.Barrier({.timeout = absl::Seconds(1.5)}).Wait();
  });
}

double CpuSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// All wait for what does not come; an error of another kind if that takes more than a twentieth of a processor.
Outcome Idle(ProcessGroup& group) {
  absl::Status status = CheckSum(group, 10);
  if (!status.ok()) return {status, absl::ZeroDuration()};
  const double before = CpuSeconds();
  Outcome outcome = Timed([&] {
    float never = 0;
    if (group.rank() == 0) return group.Recv(absl::MakeSpan(&never, 1), 1).Wait();
    return group.Barrier({.timeout = absl::Seconds(2)}).Wait();
  });
  const double used = (CpuSeconds() - before) / absl::ToDoubleSeconds(outcome.elapsed);
  if (used > 0.05) return {absl::InternalError(absl::StrCat("used ", used, " of a processor")), outcome.elapsed};
  return outcome;
}

// Each rank goes on to the next group as soon as it has left the last one.
Outcome ComeAndGo(std::unique_ptr<ProcessGroup>& group) {
  return Timed([&] {
    for (int i = 0; i < 20; ++i) {
      absl::Status status = CheckSum(*group, 10);
      if (!status.ok()) return status;
      group.reset();
      absl::StatusOr<std::unique_ptr<ProcessGroup>> next = ProcessGroup::Create();
      if (!next.ok()) return next.status();
      group = *std::move(next);
    }
    return absl::OkStatus();
  });
}

}  // namespace

Outcome Timed(const std::function<absl::Status()>& operation) {
  const absl::Time start = absl::Now();
  absl::Status status = operation();
  return {std::move(status), absl::Now() - start};
}

absl::Status CheckSum(ProcessGroup& group, size_t count) {
  std::vector<float> data(count, static_cast<float>(group.rank()));
  absl::Status status = group.AllReduce(absl::MakeSpan(data)).Wait();
  const auto expected = static_cast<float>(group.size() * (group.size() - 1) / 2);
  if (status.ok() && data != std::vector<float>(count, expected)) return absl::DataLossError("wrong sum");
  return status;
}

Scenarios WholeGroupScenarios() {
  Scenarios scenarios = {
      {"sum", [](auto& group) { return Sum(*group); }},
      {"killed", [](auto& group) { return Killed(*group, Memory::kOwn); }},
      {"killed-library", [](auto& group) { return Killed(*group, Memory::kLibrary); }},
      {"stopped", [](auto& group) { return Stopped(*group, Memory::kOwn); }},
      {"stopped-library", [](auto& group) { return Stopped(*group, Memory::kLibrary); }},
      {"idle", [](auto& group) { return Idle(*group); }},
      {"abort", [](auto& group) { return Abort(*group); }},
      {"leave", [](auto& group) { return Leave(*group); }},
      {"come-and-go", ComeAndGo},
      {"absent", [](auto& group) { return Absent(*group); }},
  };
  for (const char* kind : {"count", "type", "op", "root", "order", "divisor"}) {
    scenarios[kind] = [kind](auto& group) -> Outcome {
      absl::Status ready = group->Barrier().Wait();
      if (!ready.ok()) return {ready, absl::ZeroDuration()};
      return Timed([&] { return Mismatch(*group, kind); });
    };
  }
  return scenarios;
}

}  // namespace tutti
