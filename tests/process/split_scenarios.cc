#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/process/scenarios.h"

namespace tutti {
namespace {

using Group = std::unique_ptr<ProcessGroup>;

absl::Status Unexpected(absl::string_view what) { return absl::InternalError(what); }

int OpenDescriptors() {
  int count = 0;
  if (DIR* directory = opendir("/proc/self/fd")) {
    while (readdir(directory) != nullptr) ++count;
    closedir(directory);
  }
  return count;
}

// Even and odd ranks, the higher the earlier.
absl::Status TwoColors(Group& group) {
  absl::StatusOr<Group> half = group->Split(group->rank() % 2, -group->rank());
  if (!half.ok()) return half.status();
  if ((*half)->size() != group->size() / 2) return Unexpected("wrong size");
  if ((*half)->rank() != (group->size() - 1 - group->rank()) / 2) return Unexpected("wrong rank");
  for (int i = 0; i < 20; ++i) {
    absl::Status status = CheckSum(**half, 100000);
    if (!status.ok()) return status;
  }
  const std::string expected = absl::StrCat("group = split 1 color ", group->rank() % 2, ", key ", -group->rank(),
                                            " (rank ", group->rank(), " of ", group->size(), " in the job)");
  if (!absl::StrContains((*half)->Describe(), expected)) return Unexpected((*half)->Describe());
  return CheckSum(*group, 1000);
}

absl::Status EqualKeysKeepTheOrder(Group& group) {
  absl::StatusOr<Group> all = group->Split(0, 5);
  if (!all.ok()) return all.status();
  if ((*all)->rank() != group->rank()) return Unexpected("wrong rank");
  return CheckSum(**all, 10);
}

// Rank 1 takes part, and that is all.
absl::Status OneWithoutColor(Group& group) {
  absl::StatusOr<Group> rest = group->Split(group->rank() == 1 ? -1 : 7, 0);
  if (!rest.ok()) return rest.status();
  if ((*rest == nullptr) != (group->rank() == 1)) return Unexpected("null, or not");
  absl::Status status = *rest == nullptr ? absl::OkStatus() : CheckSum(**rest, 10);
  return status.ok() ? CheckSum(*group, 10) : status;
}

absl::Status WrongColor(Group& group) {
  const absl::Status refused = group->Split(group->rank() == 2 ? -7 : 0, 0).status();
  const absl::Status after = CheckSum(*group, 10);
  return after.ok() ? refused : after;
}

absl::Status Nested(Group& group) {
  absl::StatusOr<Group> half = group->Split(group->rank() / 2, 0);
  if (!half.ok()) return half.status();
  absl::StatusOr<Group> alone = (*half)->Split((*half)->rank(), 0);
  if (!alone.ok()) return alone.status();
  if ((*alone)->size() != 1) return Unexpected("wrong size");
  for (ProcessGroup* each : {group.get(), half->get(), alone->get()}) {
    absl::Status status = CheckSum(*each, 1000);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Orphaned(Group& group) {
  const int color = group->rank() % 2;
  absl::StatusOr<Group> half = group->Split(color, 0);
  if (!half.ok()) return half.status();
  group.reset();
  absl::Status status = CheckSum(**half, 1000);
  if (!status.ok()) return status;
  absl::StatusOr<Group> reversed = (*half)->Split(0, -(*half)->rank());
  if (!reversed.ok()) return reversed.status();
  half->reset();
  return CheckSum(**reversed, 1000);
}

// Rank 1 dies: the halves are {1, 0}, of which it is rank 0 and serves the membership, and {3, 2}.
Outcome MemberKilled(Group& group) {
  absl::StatusOr<Group> half = group->Split(group->rank() / 2, -group->rank());
  if (!half.ok()) return {half.status(), absl::ZeroDuration()};
  if (group->rank() == 1) kill(getpid(), SIGKILL);
  const Outcome whole = Timed([&] { return group->Barrier().Wait(); });
  if (whole.status.ok()) return {Unexpected("the parent goes on"), absl::ZeroDuration()};
  if (group->rank() == 0) return Timed([&] { return CheckSum(**half, 1000); });
  for (int i = 0; i < 100; ++i) {
    absl::Status status = CheckSum(**half, 1000);
    if (!status.ok()) return {status, absl::ZeroDuration()};
  }
  return whole;
}

absl::Status Many(Group& group) {
  const int before = OpenDescriptors();
  for (int round = 0; round < 5; ++round) {
    std::vector<Group> groups;
    for (int i = 0; i < 4; ++i) {
      absl::StatusOr<Group> half = group->Split(group->rank() % 2, i % 2 == 0 ? 0 : -group->rank());
      if (!half.ok()) return half.status();
      groups.push_back(*std::move(half));
    }
    for (Group& each : groups) {
      absl::Status status = CheckSum(*each, 1000);
      if (!status.ok()) return status;
    }
    for (Group& each : groups) each.reset();  // in another order than they were made
  }
  const absl::Status status = group->Barrier().Wait();
  if (!status.ok()) return status;
  return OpenDescriptors() <= before + group->size() ? absl::OkStatus() : Unexpected("descriptors are left open");
}

// Each thread has a group of its own.
absl::Status TwoThreads(Group& group) {
  absl::StatusOr<Group> other = group->Split(0, -group->rank());
  if (!other.ok()) return other.status();
  absl::Status of_thread;
  std::thread thread([&] {
    for (int i = 0; i < 300 && of_thread.ok(); ++i) of_thread = CheckSum(**other, 10000);
  });
  absl::Status status;
  for (int i = 0; i < 300 && status.ok(); ++i) status = CheckSum(*group, 10001);
  thread.join();
  return status.ok() ? of_thread : status;
}

// Two threads share the group. Their calls come in the same order on all ranks, or the other way round on rank 1.
absl::Status SharedByThreads(Group& group, bool agreed) {
  std::vector<float> small(1000, 1.0f), large(1001, 1.0f);
  absl::Notification first_called;
  absl::Status first, second;
  const bool small_first = agreed || group->rank() != 1;
  std::thread thread([&] {
    Work work = group->AllReduce(absl::MakeSpan(small_first ? small : large));
    first_called.Notify();
    first = work.Wait();
  });
  first_called.WaitForNotification();
  second = group->AllReduce(absl::MakeSpan(small_first ? large : small)).Wait();
  thread.join();
  if (!first.ok() || !second.ok()) return first.ok() ? second : first;
  const auto sum = static_cast<float>(group->size());
  const bool right = small == std::vector<float>(1000, sum) && large == std::vector<float>(1001, sum);
  return right ? absl::OkStatus() : absl::DataLossError("wrong sum");
}

Scenario Plain(absl::Status (*run)(Group&)) {
  return [run](Group& group) { return Timed([&] { return run(group); }); };
}

}  // namespace

Scenarios SplitScenarios() {
  return {
      {"split-two", Plain(TwoColors)},
      {"split-equal-keys", Plain(EqualKeysKeepTheOrder)},
      {"split-without", Plain(OneWithoutColor)},
      {"split-wrong", Plain(WrongColor)},
      {"split-nested", Plain(Nested)},
      {"split-orphaned", Plain(Orphaned)},
      {"split-killed", MemberKilled},
      {"split-many", Plain(Many)},
      {"threads-apart", Plain(TwoThreads)},
      {"threads-agreed", [](Group& group) { return Timed([&] { return SharedByThreads(group, /*agreed=*/true); }); }},
      {"threads-at-odds", [](Group& group) { return Timed([&] { return SharedByThreads(group, /*agreed=*/false); }); }},
  };
}

}  // namespace tutti
