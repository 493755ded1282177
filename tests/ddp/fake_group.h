// FakeWorld: the ranks of one job in one process, with the contract of ProcessGroup and nothing of its implementation.
//
// A collective runs on the world's own thread once every rank has called it, one after the other, in the plainest way:
// so Work is really asynchronous, and what goes wrong in a test is not the transport. All-reduce (sums), all-gather,
// broadcast and barrier; anything else is kUnimplemented.

#ifndef TUTTI_TESTS_DDP_FAKE_GROUP_H_
#define TUTTI_TESTS_DDP_FAKE_GROUP_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "tutti/process_group.h"

namespace tutti::testing {

class FakeOperation;

// What one rank has called.
struct FakeCall {
  enum class Kind { kAllReduce, kAllGather, kBroadcast, kBarrier } kind = Kind::kBarrier;
  ConstTensor input = {};
  Tensor output = {};
  double divisor = 1;
  int root = 0;
  FakeOperation* operation = nullptr;  // holds a reference; null: not called yet
};

class FakeWorld {
 public:
  explicit FakeWorld(int size, absl::Duration timeout = absl::Seconds(20));
  // Ends what is in flight.
  ~FakeWorld();

  int size() const { return size_; }
  // Of the world; the world must outlive it and all of its Works.
  std::unique_ptr<ProcessGroup> MakeGroup(int rank);

  // Between the two no collective runs, even if all ranks have called it.
  void Hold();
  void Release();
  // Called at the start of each all-reduce, by the thread that calls it. Set it while nobody does.
  void OnAllReduce(std::function<void(int rank)> hook) { on_all_reduce_ = std::move(hook); }
  // Collectives that rank has called so far.
  int calls(int rank) const;

  // For the groups and operations.
  Work Submit(int rank, FakeCall call, absl::Duration timeout);
  void Fail(absl::Status why);
  absl::Status error() const;
  absl::Status Wait(const FakeOperation& operation);
  bool Done(const FakeOperation& operation) const;

 private:
  using Slot = std::vector<FakeCall>;  // one collective; by rank

  bool FrontIsComplete() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FailLocked(absl::Status why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string MissingRanks(const FakeOperation& operation) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Complete(Slot& slot, const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run();

  const int size_;
  const absl::Duration timeout_;
  std::function<void(int rank)> on_all_reduce_;
  mutable absl::Mutex mutex_;
  std::deque<Slot> slots_ ABSL_GUARDED_BY(mutex_);  // not executed yet
  std::vector<int> calls_ ABSL_GUARDED_BY(mutex_);  // by rank
  int executed_ ABSL_GUARDED_BY(mutex_) = 0;
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace tutti::testing

#endif  // TUTTI_TESTS_DDP_FAKE_GROUP_H_
