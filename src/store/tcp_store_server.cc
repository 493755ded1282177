#include "src/store/tcp_store_server.h"

#include <fcntl.h>

#include <cerrno>
#include <map>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "src/base/frame_connection.h"
#include "src/base/log.h"
#include "src/base/status_macros.h"
#include "src/store/dictionary.h"
#include "src/store/tcp_messages.h"
#include "src/store/waiting_calls.h"

namespace tutti {
namespace {

constexpr absl::Duration kRefusalGrace = absl::Seconds(2);
constexpr absl::Duration kEndedGrace = absl::Milliseconds(500);
constexpr int kAcceptsPerRound = 64;  // then connections have their turn

// All that is not constant or guarded lives on the loop.
class Server : public TcpStoreServer {
 public:
  Server(EventLoop& loop, Fd listener, SocketAddress address, Identity self, const TcpStoreServerOptions& options)
      : loop_(loop),
        address_(address),
        self_(std::move(self)),
        options_(options),
        listener_(std::move(listener)),
        dictionary_(options.capacity_bytes),
        waiting_(dictionary_) {}
  ~Server() override;

  absl::Status Start();
  SocketAddress address() const override { return address_; }

 private:
  struct Client {
    enum class Phase : uint8_t { kGreeting, kAccepted, kLeaving };  // kLeaving: has been told why
    std::unique_ptr<FrameConnection> connection;
    std::string name;  // for messages
    Phase phase = Phase::kGreeting;
    std::optional<EventLoop::TimerId> hello_timer;  // while greeting
  };

  absl::Status WatchListener();
  void AcceptAll();
  void PauseAccepting(const absl::Status& why);
  void Welcome(Fd socket);
  void OnFrame(uint64_t client_id, const std::string& payload);
  void OnHello(Client& client, const std::string& payload);
  void OnCall(uint64_t client_id, StoreCall call);
  void OnDeadline(WaitingCalls::Id id);
  void Reply(WaitingCalls::Id id, Response response);
  void CancelDeadline(WaitingCalls::Id id);
  void Refuse(Client& client, absl::string_view why);
  // Ends the connection; logs why, unless it is empty (an end in order) or has been logged.
  void Drop(uint64_t client_id, absl::string_view why);
  void Forget(uint64_t client_id);

  void StopAccepting();
  void TellThoseLeft();
  void PublishClientCount();
  // False if clients are left after `timeout`.
  bool AwaitNoClients(absl::Duration timeout);

  EventLoop& loop_;
  const SocketAddress address_;
  const Identity self_;
  const TcpStoreServerOptions options_;

  Fd listener_;
  std::optional<EventLoop::TimerId> accept_timer_;
  bool accept_failing_ = false;  // has been logged
  Dictionary dictionary_;
  WaitingCalls waiting_;
  std::map<WaitingCalls::Id, EventLoop::TimerId> deadlines_;
  std::map<uint64_t, Client> clients_;
  uint64_t next_client_id_ = 1;

  absl::Mutex mutex_;
  size_t client_count_ ABSL_GUARDED_BY(mutex_) = 0;
};

absl::Status Server::Start() {
  absl::Status status;
  loop_.RunAndWait([&] { status = WatchListener(); });
  return status;
}

absl::Status Server::WatchListener() {
  return loop_.Watch(listener_.get(), EPOLLIN, [this](uint32_t) { AcceptAll(); });
}

void Server::AcceptAll() {
  for (int i = 0; i < kAcceptsPerRound; ++i) {
    absl::StatusOr<Fd> socket = Accept(listener_.get());
    if (absl::IsUnavailable(socket.status())) return;
    if (!socket.ok()) return PauseAccepting(socket.status());
    accept_failing_ = false;
    Welcome(*std::move(socket));
  }
}

// The connection stays in the listener's queue: polling for it at once would only spin.
void Server::PauseAccepting(const absl::Status& why) {
  if (!std::exchange(accept_failing_, true)) {
    TUTTI_LOG_ERROR("tcp store at {}: new connections have to wait: {}", address_.ToString(), why.ToString());
  }
  loop_.Unwatch(listener_.get());
  accept_timer_ = loop_.After(options_.accept_pause, [this] {
    accept_timer_.reset();
    if (absl::Status status = WatchListener(); !status.ok()) PauseAccepting(status);
  });
}

void Server::Welcome(Fd socket) {
  const uint64_t id = next_client_id_++;
  Client& client = clients_[id];
  client.connection = std::make_unique<FrameConnection>(
      loop_, std::move(socket), FrameConnection::Limits{.frame_bytes = kHelloBytesMax},
      FrameConnection::Callbacks{.frame = [this, id](std::string payload) { OnFrame(id, payload); },
                                 .closed = [this, id](absl::Status why) { Drop(id, why.message()); }});
  client.name = client.connection->peer().ToString();
  client.hello_timer = loop_.After(options_.hello_timeout, [this, id] {
    clients_[id].hello_timer.reset();
    Drop(id, absl::StrCat("no hello within ", absl::FormatDuration(options_.hello_timeout)));
  });
  PublishClientCount();
}

void Server::OnFrame(uint64_t client_id, const std::string& payload) {
  Client& client = clients_[client_id];
  if (client.phase == Client::Phase::kGreeting) return OnHello(client, payload);
  absl::StatusOr<StoreCall> call = DecodeStoreCall(payload);
  if (!call.ok()) return Drop(client_id, call.status().message());
  OnCall(client_id, *std::move(call));
}

void Server::OnHello(Client& client, const std::string& payload) {
  loop_.Cancel(*std::exchange(client.hello_timer, std::nullopt));
  const absl::StatusOr<Hello> hello = DecodeHello(payload);
  if (!hello.ok()) return Refuse(client, hello.status().message());
  absl::StrAppend(&client.name, ", ", Describe(hello->from));
  if (hello->purpose != kStorePurpose) {
    return Refuse(client, absl::StrCat("this is a store, not what the connection is for: \"",
                                       absl::Utf8SafeCHexEscape(hello->purpose), "\""));
  }
  if (absl::Status same = CheckSameJob(self_, hello->from); !same.ok()) return Refuse(client, same.message());
  client.phase = Client::Phase::kAccepted;
  client.connection->set_limits(kStoreFrameLimits);
  client.connection->Send(
      Encode(Hello{.purpose = std::string(kStorePurpose), .from = self_, .refusal = "", .signature = ""}));
}

void Server::Refuse(Client& client, absl::string_view why) {
  TUTTI_LOG_WARNING("tcp store at {}: refused {}: {}", address_.ToString(), client.name, std::string(why));
  client.connection->Send(Encode(
      Hello{.purpose = std::string(kStorePurpose), .from = self_, .refusal = std::string(why), .signature = ""}));
  client.connection->CloseGracefully(kRefusalGrace);
  client.phase = Client::Phase::kLeaving;
}

void Server::OnCall(uint64_t client_id, StoreCall call) {
  const WaitingCalls::Id id{client_id, call.id};
  if (Waits(call.request.verb) && call.timeout > absl::ZeroDuration() && !dictionary_.ContainsAll(call.request.keys)) {
    if (deadlines_.contains(id)) return Drop(client_id, absl::StrCat("call number ", call.id, " used twice"));
    waiting_.Add(id, std::move(call.request));
    deadlines_[id] = loop_.After(call.timeout, [this, id] { OnDeadline(id); });
    return;
  }
  Reply(id, dictionary_.Apply(call.request));
  if (Waits(call.request.verb)) return;
  for (const std::string& key : call.request.keys) {
    if (!dictionary_.Contains(key)) continue;
    for (auto& [woken, request] : waiting_.Wake(key)) Reply(woken, dictionary_.Apply(request));
  }
}

void Server::OnDeadline(WaitingCalls::Id id) {
  if (const std::optional<Request> request = waiting_.Remove(id)) Reply(id, dictionary_.Apply(*request));
}

void Server::Reply(WaitingCalls::Id id, Response response) {
  CancelDeadline(id);
  const auto client = clients_.find(id.client);
  if (client == clients_.end()) return;
  client->second.connection->Send(Encode(StoreAnswer{.id = id.call, .response = std::move(response)}));
}

void Server::CancelDeadline(WaitingCalls::Id id) {
  const auto deadline = deadlines_.find(id);
  if (deadline == deadlines_.end()) return;
  loop_.Cancel(deadline->second);
  deadlines_.erase(deadline);
}

void Server::Drop(uint64_t client_id, absl::string_view why) {
  const auto client = clients_.find(client_id);
  if (client == clients_.end()) return;
  if (!why.empty() && client->second.phase != Client::Phase::kLeaving) {
    TUTTI_LOG_WARNING("tcp store at {}: dropped {}: {}", address_.ToString(), client->second.name, std::string(why));
  }
  Forget(client_id);
}

void Server::Forget(uint64_t client_id) {
  for (const WaitingCalls::Id id : waiting_.RemoveClient(client_id)) CancelDeadline(id);
  auto client = clients_.extract(client_id);
  if (client.mapped().hello_timer.has_value()) loop_.Cancel(*client.mapped().hello_timer);
  PublishClientCount();
}

void Server::PublishClientCount() {
  absl::MutexLock lock(&mutex_);
  client_count_ = clients_.size();
}

bool Server::AwaitNoClients(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  const auto none = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return client_count_ == 0; };
  return mutex_.AwaitWithTimeout(absl::Condition(&none), timeout);
}

void Server::StopAccepting() {
  if (accept_timer_.has_value()) loop_.Cancel(*accept_timer_);
  loop_.Unwatch(listener_.get());
  listener_.Close();
  std::vector<uint64_t> strangers;
  for (const auto& [id, client] : clients_) {
    if (client.phase == Client::Phase::kGreeting) strangers.push_back(id);
  }
  for (const uint64_t id : strangers) Forget(id);
}

void Server::TellThoseLeft() {
  for (auto& [id, client] : clients_) {
    TUTTI_LOG_WARNING("tcp store at {}: ends while {} is still connected", address_.ToString(), client.name);
    client.connection->Send(EncodeStoreEnded());
    client.connection->CloseGracefully(kEndedGrace);
    client.phase = Client::Phase::kLeaving;
  }
}

Server::~Server() {
  loop_.RunAndWait([this] { StopAccepting(); });
  if (!AwaitNoClients(options_.leave_timeout)) {
    loop_.RunAndWait([this] { TellThoseLeft(); });
    AwaitNoClients(2 * kEndedGrace);
  }
  loop_.RunAndWait([this] {
    while (!clients_.empty()) Forget(clients_.begin()->first);
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<TcpStoreServer>> StartTcpStoreServer(EventLoop& loop, Fd listener, const Identity& self,
                                                                    const TcpStoreServerOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(SocketAddress address, LocalAddress(listener.get()));
  // It may be inherited, and accepting must not keep the loop.
  if (fcntl(listener.get(), F_SETFL, fcntl(listener.get(), F_GETFL) | O_NONBLOCK) != 0) {
    return absl::ErrnoToStatus(errno, "tcp store: cannot make the listener non-blocking");
  }
  auto server = std::make_unique<Server>(loop, std::move(listener), address, self, options);
  TUTTI_RETURN_IF_ERROR(server->Start());
  return server;
}

absl::StatusOr<std::unique_ptr<TcpStoreServer>> TcpStoreServer::Start(EventLoop& loop, Fd listener,
                                                                      const Identity& self) {
  return StartTcpStoreServer(loop, std::move(listener), self, {});
}

}  // namespace tutti
