#include <algorithm>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "src/base/frame_connection.h"
#include "src/base/status_macros.h"
#include "src/store/request_store.h"
#include "src/store/stores.h"
#include "src/store/tcp_messages.h"

namespace tutti {
namespace {

// The server answers at the deadline, with the missing keys; after this, it is not going to.
constexpr absl::Duration kAnswerGrace = absl::Seconds(2);
constexpr absl::Duration kGoodbyeTimeout = absl::Seconds(2);

constexpr FrameConnection::Limits kHelloLimits = {.frame_bytes = kHelloBytesMax};
// Each calling thread waits for its answer, so the backlog is bounded by what callers have in their hands.
constexpr FrameConnection::Limits kClientLimits = {.frame_bytes = kStoreFrameLimits.frame_bytes,
                                                   .backlog_bytes = size_t{1} << 40};

class TcpStore : public RequestStore {
 public:
  TcpStore(EventLoop& loop, std::string address, Identity self)
      : loop_(loop), address_(std::move(address)), self_(std::move(self)) {}
  ~TcpStore() override;

  // Exchanges hellos; kUnavailable if the connection ended before that.
  absl::Status Greet(Fd socket, absl::Time deadline);

  std::string Describe() const override { return absl::StrCat("tcp store at ", address_); }

 private:
  struct Pending {
    bool done = false;
    Response response;
  };

  Response Answer(Request request, absl::Time deadline) override;
  void OpenFromLoop(Fd socket);
  void OnFrameFromLoop(const std::string& payload);
  absl::Status OnHelloFromLoop(const std::string& payload);
  absl::Status OnAnswerFromLoop(const std::string& payload);
  void OnClosedFromLoop(absl::Status why);
  // The connection is of no use any more; `why` is what all calls get. The first one counts.
  void Fail(absl::Status why);
  bool greeted() {
    absl::MutexLock lock(&mutex_);
    return greeted_;
  }

  EventLoop& loop_;
  const std::string address_;
  const Identity self_;

  std::unique_ptr<FrameConnection> connection_;  // the loop's

  absl::Mutex mutex_;
  bool greeted_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status gone_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<uint64_t, Pending*> pending_ ABSL_GUARDED_BY(mutex_);
};

absl::Status TcpStore::Greet(Fd socket, absl::Time deadline) {
  loop_.RunAndWait([&] { OpenFromLoop(std::move(socket)); });
  absl::MutexLock lock(&mutex_);
  const auto decided = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return greeted_ || !gone_.ok(); };
  if (mutex_.AwaitWithDeadline(absl::Condition(&decided), deadline)) return gone_;
  return absl::DeadlineExceededError(
      "connected, but got no hello before the deadline: its process is stopped, out of file descriptors, or no store");
}

void TcpStore::OpenFromLoop(Fd socket) {
  connection_ = std::make_unique<FrameConnection>(
      loop_, std::move(socket), kHelloLimits,
      FrameConnection::Callbacks{.frame = [this](std::string payload) { OnFrameFromLoop(payload); },
                                 .closed = [this](absl::Status why) { OnClosedFromLoop(std::move(why)); }});
  connection_->Send(
      Encode(Hello{.purpose = std::string(kStorePurpose), .from = self_, .refusal = "", .signature = ""}));
}

void TcpStore::OnFrameFromLoop(const std::string& payload) {
  const absl::Status status = greeted() ? OnAnswerFromLoop(payload) : OnHelloFromLoop(payload);
  if (status.ok()) return;
  Fail(status);
  connection_->CloseGracefully(kGoodbyeTimeout);
}

absl::Status TcpStore::OnHelloFromLoop(const std::string& payload) {
  TUTTI_ASSIGN_OR_RETURN(const Hello hello, DecodeHello(payload));
  if (!hello.refusal.empty()) return absl::FailedPreconditionError(absl::StrCat("refused us: ", hello.refusal));
  if (hello.purpose != kStorePurpose) return absl::FailedPreconditionError("is no store");
  TUTTI_RETURN_IF_ERROR(CheckSameJob(self_, hello.from));
  connection_->set_limits(kClientLimits);
  absl::MutexLock lock(&mutex_);
  greeted_ = true;
  return absl::OkStatus();
}

absl::Status TcpStore::OnAnswerFromLoop(const std::string& payload) {
  absl::StatusOr<std::optional<StoreAnswer>> answer = DecodeStoreAnswer(payload);
  if (!answer.ok())
    return absl::UnavailableError(absl::StrCat("the server spoke nonsense: ", answer.status().message()));
  if (!answer->has_value()) return absl::UnavailableError("the store server has ended: its rank has left the job");
  absl::MutexLock lock(&mutex_);
  const auto call = pending_.find((*answer)->id);
  if (call == pending_.end()) return absl::OkStatus();  // given up meanwhile
  call->second->response = std::move((*answer)->response);
  call->second->done = true;
  return absl::OkStatus();
}

void TcpStore::OnClosedFromLoop(absl::Status why) {
  if (why.ok()) why = absl::UnavailableError("the server closed the connection");
  // kInvalidArgument, instead of a hello: whatever this is, trying again will not make it a store.
  Fail(absl::IsInvalidArgument(why) && !greeted() ? why : absl::UnavailableError(why.message()));
  absl::MutexLock lock(&mutex_);
  closed_ = true;
}

void TcpStore::Fail(absl::Status why) {
  absl::MutexLock lock(&mutex_);
  if (gone_.ok()) gone_ = std::move(why);
}

Response TcpStore::Answer(Request request, absl::Time deadline) {
  Pending pending;
  StoreCall call{.id = 0, .timeout = deadline - absl::Now(), .request = std::move(request)};
  {
    absl::MutexLock lock(&mutex_);
    if (!gone_.ok()) return {.status = gone_, .values = {}};
    call.id = next_id_++;
    pending_[call.id] = &pending;
  }
  loop_.Post([this, frame = Encode(call)] { connection_->Send(frame); });

  absl::MutexLock lock(&mutex_);
  const auto decided = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return pending.done || !gone_.ok(); };
  const absl::Time until = Waits(call.request.verb) ? std::max(deadline, absl::Now()) + kAnswerGrace : deadline;
  mutex_.AwaitWithDeadline(absl::Condition(&decided), until);
  pending_.erase(call.id);
  if (pending.done) return std::move(pending.response);
  if (!gone_.ok()) return {.status = gone_, .values = {}};
  return {.status = absl::DeadlineExceededError(absl::StrCat(
              "the server does not answer (its process is stopped, or its host cannot be reached); asked for ",
              QuoteKeys(call.request.keys))),
          .values = {}};
}

TcpStore::~TcpStore() {
  const bool goodbye = greeted();
  loop_.RunAndWait([&] {
    if (goodbye) connection_->CloseGracefully(kGoodbyeTimeout);
  });
  if (goodbye) {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(&closed_), 2 * kGoodbyeTimeout);
  }
  loop_.RunAndWait([&] { connection_.reset(); });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> ConnectTcpStore(EventLoop& loop, const std::vector<SocketAddress>& server,
                                                       const Identity& self, absl::Time deadline) {
  absl::Duration pause = absl::Milliseconds(20);
  for (;;) {
    absl::StatusOr<Fd> socket = ConnectAny(server, deadline);
    if (!socket.ok()) {
      return absl::Status(socket.status().code(), absl::StrCat("tcp store: ", socket.status().message()));
    }
    const absl::StatusOr<SocketAddress> peer = PeerAddress(socket->get());
    auto store = std::make_unique<TcpStore>(loop, peer.ok() ? peer->ToString() : server.front().ToString(), self);
    const absl::Status status = store->Greet(*std::move(socket), deadline);
    if (status.ok()) return store;
    // A server that closes at once may be one that ends, to be followed by ours.
    if (!absl::IsUnavailable(status) || absl::Now() + pause >= deadline) {
      return absl::Status(status.code(), absl::StrCat(store->Describe(), ": ", status.message()));
    }
    absl::SleepFor(pause);
    pause = std::min(2 * pause, absl::Seconds(1));
  }
}

}  // namespace tutti
