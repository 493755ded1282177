#include "src/engine/engine.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"

namespace tutti {
namespace {

// How often the background thread looks for operations that nobody attends to, and after how many looks without any
// operation in between it sleeps until it is kicked.
constexpr absl::Duration kLook = absl::Milliseconds(1);
constexpr int kLooksUntilDormant = 50;
// An upper bound of any sleep of the driver, should a wake-up be lost on the way.
constexpr absl::Duration kSleep = absl::Seconds(1);
// Looking at the clock takes longer than an idle Poll.
constexpr int kPollsPerClock = 16;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

EngineOptions OptionsFor(Endpoint& endpoint, EngineOptions options) {
  if (endpoint.shared_memory() != nullptr) options.selection.ShareMemory();
  return options;
}

}  // namespace

Engine::Engine(std::unique_ptr<Endpoint> endpoint, Journal& journal, const EngineOptions& options,
               absl::AnyInvocable<void(const Trouble&)> report)
    : options_(OptionsFor(*endpoint, options)),
      size_(endpoint->size()),
      transport_(endpoint->Describe()),
      striping_(endpoint->striping()),
      journal_(journal),
      pool_(OperationPool::Create()),
      core_(std::move(endpoint), journal),
      report_(std::move(report)),
      thread_("tutti-progress", [this] { BackgroundLoop(); }) {}

Engine::~Engine() {
  stopping_.store(true);
  SetVerdict(absl::CancelledError("the group was destroyed on this rank"));
  {
    absl::MutexLock lock(&mutex_);
    WakeDriver();
    WakeBackground();
  }
  thread_.Join();
  absl::MutexLock lock(&mutex_);
  FailCore();
}

Work Engine::Issue(const OperationRequest& request) {
  EngineOperation* const operation = Prepare(request);
  Submit({&operation, 1});
  return Work(operation);
}

EngineOperation* Engine::Prepare(const OperationRequest& request) {
  EngineOperation* operation = pool_->Take(/*references=*/2);
  operation->Prepare(request, size_, options_.selection, options_.ranks_per_host);
  if (operation->channel == Channel::kCollective && operation->message_bytes >= striping_.from_bytes) {
    operation->sockets = striping_.sockets;
  }
  return operation;
}

Work Engine::JoinBatch(absl::Span<EngineOperation* const> operations) {
  const auto members = static_cast<uint32_t>(operations.size());
  if (members == 0) return Work(absl::OkStatus());
  EngineOperation* batch = pool_->Take(static_cast<int>(members) + 1);
  batch->PrepareBatch(members);
  batch->waiter.store(this);
  for (EngineOperation* operation : operations) operation->batch = batch;
  return Work(batch);
}

void Engine::Submit(absl::Span<EngineOperation* const> operations) {
  bool wakes = false;
  bool moves = false;  // something that Poll may move at once
  {
    absl::MutexLock lock(&mutex_);
    if (!verdict_.ok()) return Refuse(operations);
    for (EngineOperation* operation : operations) {
      operation->waiter.store(this);
      wakes |= operation->background;
      moves |= operation->descriptor.algorithm != Algorithm::kShared;
      if (operation->channel == Channel::kCollective) {
        operation->sequence = ++sequence_;
        operation->history = journal_.Begin(operation->sequence, operation->descriptor, operation->fingerprint);
      }
      ++issued_count_;
      issued_.push_back(operation);
    }
    wakes |= dormant_;
    if (TakeTokenOrAttention()) {
      StartIssued();
      // Whoever finds it taken comes for the mutex next.
      if (!moves) driving_.store(false, std::memory_order_release);
    } else {
      WakeDriver();
      moves = false;
    }
    if (wakes && !moves) WakeBackground();
  }
  if (!moves) return;
  core_.Progress();
  AnnounceCompleted();
  ReleaseToken();
  if (!wakes) return;
  absl::MutexLock lock(&mutex_);
  if (InFlight()) WakeBackground();
}

bool Engine::TakeTokenOrAttention() {
  if (TakeToken()) return true;
  attention_.store(true);
  return TakeToken();  // if it was released meanwhile, perhaps nobody has seen that
}

void Engine::Refuse(absl::Span<EngineOperation* const> operations) {
  for (EngineOperation* operation : operations) {
    operation->Complete(verdict_);
    if (operation->batch != nullptr) operation->batch->MemberDone(verdict_);
    operation->Unref();
  }
}

void Engine::SetVerdict(absl::Status verdict) {
  absl::MutexLock lock(&mutex_);
  if (!verdict_.ok()) return;
  verdict_ = std::move(verdict);
  attention_.store(true);
  verdict_set_.SignalAll();
  WakeDriver();
  WakeBackground();
}

absl::Status Engine::verdict() const {
  absl::MutexLock lock(&mutex_);
  return verdict_;
}

void Engine::WaitFor(EngineOperation& operation) {
  if (!TakeToken() && !WaitForToken(operation)) return;
  DriveUntilDone(operation);
  ReleaseToken();
}

// False if the operation is done instead.
bool Engine::WaitForToken(const EngineOperation& operation) {
  absl::MutexLock lock(&mutex_);
  ++waiting_;
  WakeDriver();  // if it is the background thread, it makes room
  bool taken = false;
  while (!operation.Done() && !(taken = TakeToken())) released_.Wait(&mutex_);
  --waiting_;
  return taken;
}

void Engine::ReleaseToken() {
  driving_.store(false);
  if (waiting_.load() == 0 && !attention_.load()) return;
  absl::MutexLock lock(&mutex_);
  LookAfterRelease();
}

// For those who found the token taken.
void Engine::LookAfterRelease() {
  if (waiting_.load() > 0) {
    released_.SignalAll();
  } else if (attention_.load()) {
    WakeBackground();
  }
}

void Engine::StartIssued() {
  for (EngineOperation* operation : issued_) core_.Start(operation);
  issued_.clear();
}

void Engine::WakeDriver() {
  if (sleeping_.load() && core_.endpoint() != nullptr) core_.endpoint()->Wake();
}

void Engine::WakeBackground() {
  kick_ = true;
  kicked_.Signal();
}

void Engine::FailCore() {
  StartIssued();
  core_.Fail(verdict_);
  completed_.store(core_.completed());
  released_.SignalAll();
}

void Engine::DriveUntilDone(const EngineOperation& operation) {
  Drive([&operation] { return operation.Done(); });
}

void Engine::DriveInBackground() {
  Drive([this] { return waiting_.load() > 0 || stopping_.load() || core_.idle(); });
}

template <typename Stop>
void Engine::Drive(const Stop& stop) {
  absl::Time idle_since = absl::InfiniteFuture();
  int idle_polls = 0;
  while (!stop()) {
    if (core_.Progress()) {
      idle_since = absl::InfiniteFuture();
      idle_polls = 0;
      AnnounceCompleted();
      continue;
    }
    if (attention_.load()) {
      Attend();
      continue;
    }
    if (++idle_polls % kPollsPerClock != 0 && !options_.yield) {
      if (idle_polls > kPollsPerClock) Pause();  // it takes longer than a poll, too
      continue;
    }
    const absl::Time now = absl::Now();
    idle_since = std::min(idle_since, now);
    core_.CheckDeadlines(now);
    if (core_.trouble().has_value()) {
      HandleTrouble();
    } else if (now - idle_since >= options_.spin) {
      Sleep(stop);
    } else if (options_.yield) {
      sched_yield();
    } else {
      Pause();
    }
  }
}

// Passes on what was issued meanwhile, and ends everything if there is a verdict.
void Engine::Attend() {
  absl::MutexLock lock(&mutex_);
  AttendLocked();
}

void Engine::AttendLocked() {
  attention_.store(false);
  if (verdict_.ok()) {
    StartIssued();
  } else {
    FailCore();
  }
}

void Engine::AnnounceCompleted() {
  if (completed_.load(std::memory_order_relaxed) == core_.completed()) return;
  completed_.store(core_.completed(), std::memory_order_release);
  if (waiting_.load() == 0) return;  // whoever waits has looked at Done after that
  absl::MutexLock lock(&mutex_);
  released_.SignalAll();
}

void Engine::HandleTrouble() {
  const Trouble& trouble = *core_.trouble();
  if (report_ != nullptr) report_(trouble);
  absl::MutexLock lock(&mutex_);
  const absl::Time patience = absl::Now() + (report_ != nullptr ? kVerdictPatience : absl::ZeroDuration());
  while (verdict_.ok() && !verdict_set_.WaitWithDeadline(&mutex_, patience)) {
  }
  if (verdict_.ok()) verdict_ = trouble.status;
  FailCore();
}

template <typename Stop>
void Engine::Sleep(const Stop& stop) {
  sleeping_.store(true);
  if (!attention_.load() && !stop()) {
    core_.endpoint()->Sleep(std::min(core_.NextDeadline(), absl::Now() + kSleep));
  }
  sleeping_.store(false);
}

void Engine::BackgroundLoop() {
  absl::MutexLock lock(&mutex_);
  uint64_t issued_before = 0;
  int quiet_looks = 0;
  while (!stopping_.load()) {
    const bool unattended = InFlight() || attention_.load();
    if (kick_ && unattended && waiting_.load() == 0 && TakeToken()) {
      kick_ = false;
      AttendLocked();
      mutex_.Unlock();
      DriveInBackground();
      driving_.store(false);
      mutex_.Lock();
      LookAfterRelease();
      continue;
    }
    kick_ = false;
    quiet_looks = issued_count_ == issued_before && !unattended ? quiet_looks + 1 : 0;
    issued_before = issued_count_;
    if (quiet_looks >= kLooksUntilDormant) {
      dormant_ = true;
      while (!kick_ && !stopping_.load()) kicked_.Wait(&mutex_);
      dormant_ = false;
      quiet_looks = 0;
    } else if (kicked_.WaitWithTimeout(&mutex_, kLook)) {
      kick_ = true;  // a look: whatever is in flight now and not being driven has been left alone
    }
  }
}

}  // namespace tutti
