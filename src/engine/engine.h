// Engine: decides which thread drives the core, and when the group has failed.
//
// One thread at a time holds the *progress token* and drives. A thread inside Wait takes it and polls, so a blocking
// call involves no other thread. While nobody waits, a background thread holds it, asleep in the endpoint until
// messages arrive; it hands it over to whoever comes to wait. It is woken at once for operations that ask for it, and
// otherwise looks every millisecond for work that nobody attends to, as long as the group is in use.
//
// When something goes wrong, the core stops, the trouble is reported (to the membership), and the verdict that comes
// back is what every operation returns. Without a verdict within a bounded time, the rank's own view is.

#ifndef TUTTI_SRC_ENGINE_ENGINE_H_
#define TUTTI_SRC_ENGINE_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "src/base/thread.h"
#include "src/engine/core.h"
#include "src/engine/operation.h"
#include "src/engine/selection.h"
#include "src/observe/journal.h"
#include "src/transport/transport.h"
#include "tutti/work.h"

namespace tutti {

struct EngineOptions {
  // How long a waiting thread polls before it sleeps. Short, with a yield at each turn, where ranks outnumber
  // processors.
  absl::Duration spin = absl::Microseconds(100);
  bool yield = false;
  SelectionTable selection;
  // The same on all ranks: host h has the ranks from h times this on; 1: each rank has a host of its own. 0: nothing is
  // known of hosts, or they are uneven.
  int ranks_per_host = 0;
};

class Engine final : public OperationWaiter {
 public:
  // How long a rank waits for the verdict on a trouble that it has reported.
  static constexpr absl::Duration kVerdictPatience = absl::Milliseconds(1500);

  // `report` is told of trouble, at most once, on the driving thread; SetVerdict is its answer. Without it, the rank's
  // own view is final at once.
  Engine(std::unique_ptr<Endpoint> endpoint, Journal& journal, const EngineOptions& options,
         absl::AnyInvocable<void(const Trouble&)> report);
  // Operations in flight end with kCancelled.
  ~Engine();

  Work Issue(const OperationRequest& request) ABSL_LOCKS_EXCLUDED(mutex_);

  // The same in two steps, for many operations: Prepare hands out an operation with two references, one for Submit and
  // one for a Work; Submit issues the operations in this order, as one.
  EngineOperation* Prepare(const OperationRequest& request);
  void Submit(absl::Span<EngineOperation* const> operations) ABSL_LOCKS_EXCLUDED(mutex_);
  // Makes the operations members of a batch, before they are submitted: done when all are.
  Work JoinBatch(absl::Span<EngineOperation* const> operations);

  // Ends the group: the first call decides. Any thread; returns at once.
  void SetVerdict(absl::Status verdict) ABSL_LOCKS_EXCLUDED(mutex_);
  // OK until then.
  absl::Status verdict() const ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string& DescribeTransport() const { return transport_; }
  std::string DescribeSelection() const {
    return tutti::DescribeSelection(options_.selection, size_, options_.ranks_per_host);
  }

 private:
  void WaitFor(EngineOperation& operation) override ABSL_LOCKS_EXCLUDED(mutex_);

  // Whoever changes driving_ from false to true holds the token, and owns the core until driving_ is false again.
  bool TakeToken() { return !driving_.load() && !driving_.exchange(true); }
  // Without it, whoever holds it has news.
  bool TakeTokenOrAttention() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool WaitForToken(const EngineOperation& operation) ABSL_LOCKS_EXCLUDED(mutex_);
  void ReleaseToken() ABSL_LOCKS_EXCLUDED(mutex_);
  void LookAfterRelease() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Refuse(absl::Span<EngineOperation* const> operations) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartIssued() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WakeDriver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WakeBackground() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool InFlight() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return issued_count_ != completed_.load(); }
  void FailCore() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // With the token, without the mutex:
  void DriveUntilDone(const EngineOperation& operation) ABSL_LOCKS_EXCLUDED(mutex_);
  void DriveInBackground() ABSL_LOCKS_EXCLUDED(mutex_);
  template <typename Stop>
  void Drive(const Stop& stop) ABSL_LOCKS_EXCLUDED(mutex_);
  void Attend() ABSL_LOCKS_EXCLUDED(mutex_);
  void AttendLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AnnounceCompleted() ABSL_LOCKS_EXCLUDED(mutex_);
  void HandleTrouble() ABSL_LOCKS_EXCLUDED(mutex_);
  template <typename Stop>
  void Sleep(const Stop& stop) ABSL_LOCKS_EXCLUDED(mutex_);

  void BackgroundLoop() ABSL_LOCKS_EXCLUDED(mutex_);

  const EngineOptions options_;
  const int size_;
  const std::string transport_;
  const Striping striping_;
  Journal& journal_;
  OperationPool::Owner pool_;

  // Owned by the holder of the token; but the endpoint is destroyed, and woken, under mutex_ only.
  Core core_;
  absl::AnyInvocable<void(const Trouble&)> report_;

  mutable absl::Mutex mutex_;
  // Condition variables, not conditions: the mutex is taken several times per operation, and evaluating the conditions
  // of sleeping threads each time would cost more than the rest of the call.
  absl::CondVar released_;     // the token was released, or an operation completed while somebody waited
  absl::CondVar verdict_set_;  // for the driver that has reported trouble
  absl::CondVar kicked_;       // for the background thread
  bool kick_ ABSL_GUARDED_BY(mutex_) = false;
  bool dormant_ ABSL_GUARDED_BY(mutex_) = false;   // the background thread sleeps until it is kicked
  uint32_t sequence_ ABSL_GUARDED_BY(mutex_) = 0;  // of the latest collective
  uint64_t issued_count_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<EngineOperation*> issued_ ABSL_GUARDED_BY(mutex_);  // not yet passed to the core
  absl::Status verdict_ ABSL_GUARDED_BY(mutex_);

  // Read by the driver without the mutex. Each is written before its reader is woken: a driver about to sleep sets
  // sleeping_ and then looks at the others; a writer writes and then looks at sleeping_. A driver that ends clears
  // driving_ and then looks at waiting_ and attention_; who needs it sets one of these and then looks at driving_. All
  // sequentially consistent, so at least one of the two sees the other.
  std::atomic<bool> driving_{false};
  std::atomic<int> waiting_{0};         // threads in WaitFor that do not drive
  std::atomic<bool> attention_{false};  // issued_ or verdict_ is news
  std::atomic<bool> stopping_{false};
  std::atomic<bool> sleeping_{false};
  std::atomic<uint64_t> completed_{0};  // written by the driver

  Thread thread_;  // last: starts when all else is there
};

}  // namespace tutti

#endif  // TUTTI_SRC_ENGINE_ENGINE_H_
