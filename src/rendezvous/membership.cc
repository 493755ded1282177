#include "src/rendezvous/membership.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "src/base/status_macros.h"
#include "src/rendezvous/come_again.h"
#include "src/rendezvous/membership_client.h"
#include "src/rendezvous/membership_messages.h"
#include "src/rendezvous/membership_server.h"

namespace tutti {
namespace {

using Message = MembershipMessage;
using Type = MembershipMessage::Type;

// Beyond the deadline, for the server to say who is missing.
constexpr absl::Duration kJoinGrace = absl::Seconds(1);
constexpr absl::Duration kLeavePatience = absl::Milliseconds(500);
// Of rank 0, with the ranks that have not left.
constexpr absl::Duration kServerPatience = absl::Seconds(1);
// With a server that listens already: a refusal means that its process is gone.
constexpr absl::Duration kListeningPatience = absl::Seconds(5);
// Stands in the store before the reason if rank 0 cannot serve, in place of its address.
constexpr absl::string_view kFailed = "failed: ";
// Stands there when rank 0 has begun to leave.
constexpr absl::string_view kEnded = "ended";
// With the address in the store, until it is read again: its server may have ended meanwhile.
constexpr absl::Duration kServerAttempt = absl::Seconds(2);

std::string KeyOf(const Identity& self) { return absl::StrCat("membership/", self.generation); }

class MembershipImpl final : public Membership {
 public:
  explicit MembershipImpl(EventLoop& loop) : loop_(loop) {}
  ~MembershipImpl() override;

  void Serve(Fd listener, const MembershipOptions& options) {
    loop_.RunAndWait([&] { server_ = std::make_unique<MembershipServer>(loop_, std::move(listener), options); });
  }
  // The server is found through `store`, which is told of its end.
  void Publish(Store& store, std::string key) {
    store_ = &store;
    key_ = std::move(key);
  }
  void Unpublish() { store_ = nullptr; }
  // Introduces this rank, and waits until all have joined.
  absl::Status Enter(Fd socket, const MembershipOptions& options, const Journal& journal,
                     absl::AnyInvocable<void(absl::Status)> verdict);
  void FailServer(absl::Status why) {
    loop_.RunAndWait([&] {
      if (server_ != nullptr) server_->Decide(std::move(why));
    });
  }

  const std::vector<Member>& members() const override { return members_; }
  void ReportPeerLost(int peer, absl::Status why) override {
    Report({.type = Type::kPeerLost, .text = std::string(why.message()), .peer = peer});
  }
  void ReportMismatch(uint32_t sequence) override { Report({.type = Type::kMismatch, .sequence = sequence}); }
  void ReportTimeout(uint32_t sequence, std::string detail) override {
    Report({.type = Type::kTimeout, .text = std::move(detail), .sequence = sequence});
  }
  void ReportAbort(absl::Status why) override { Report({.type = Type::kAbort, .text = std::string(why.message())}); }

 private:
  void Report(Message message) {
    loop_.Post([this, message = std::move(message)]() mutable { client_->Report(std::move(message)); });
  }

  EventLoop& loop_;
  std::unique_ptr<MembershipServer> server_;  // rank 0's; on the loop
  std::unique_ptr<MembershipClient> client_;  // on the loop
  std::vector<Member> members_;
  Store* store_ = nullptr;
  std::string key_;
};

absl::Status OpenServer(MembershipImpl& membership, Store& store, const MembershipOptions& options) {
  absl::StatusOr<Fd> listener = Listen(options.listen, options.ports);
  absl::StatusOr<SocketAddress> address = listener.ok() ? LocalAddress(listener->get()) : listener.status();
  if (!address.ok()) {
    return absl::Status(address.status().code(), absl::StrCat("the membership server of ", Describe(options.self),
                                                              " cannot listen: ", address.status().message()));
  }
  membership.Serve(*std::move(listener), options);
  TUTTI_RETURN_IF_ERROR(store.Set(KeyOf(options.self), address->ToString()));
  membership.Publish(store, KeyOf(options.self));
  return absl::OkStatus();
}

absl::StatusOr<Fd> ConnectToServer(const SocketAddress& server, const MembershipOptions& options, absl::Time deadline) {
  absl::StatusOr<Fd> socket = ConnectAny({server}, deadline);
  if (socket.ok()) return socket;
  return absl::Status(socket.status().code(), absl::StrCat(Describe(options.self), " cannot reach the membership ",
                                                           "server of rank 0: ", socket.status().message()));
}

absl::StatusOr<Fd> FindServer(Store& store, const MembershipOptions& options) {
  while (true) {
    absl::StatusOr<std::string> published = store.Get(KeyOf(options.self), options.deadline);
    if (!published.ok()) {
      const std::string message = absl::StrCat("rank 0 has not opened the membership of job \"", options.self.job_id,
                                               "\": is it started? ", published.status().message());
      if (absl::IsUnavailable(published.status())) return ComeAgain(message);
      return absl::Status(published.status().code(), message);
    }
    absl::string_view text = *published;
    if (absl::ConsumePrefix(&text, kFailed)) return absl::UnavailableError(text);
    if (text == kEnded) return ComeAgain("rank 0 is ending its last group");
    TUTTI_ASSIGN_OR_RETURN(const SocketAddress address, SocketAddress::Parse(text));
    const absl::Time soon = std::min(options.deadline, absl::Now() + kServerAttempt);
    absl::StatusOr<Fd> socket = ConnectToServer(address, options, soon);
    if (socket.ok() || soon == options.deadline) return socket;
  }
}

absl::Status MembershipImpl::Enter(Fd socket, const MembershipOptions& options, const Journal& journal,
                                   absl::AnyInvocable<void(absl::Status)> verdict) {
  // Shared, because the answer may come when nobody waits for it any more.
  struct Answer {
    absl::Notification come;
    absl::StatusOr<std::vector<Member>> members = absl::UnknownError("");
  };
  const auto answer = std::make_shared<Answer>();
  loop_.RunAndWait([&] {
    client_ = std::make_unique<MembershipClient>(loop_, std::move(socket), options, journal,
                                                 MembershipClient::Callbacks{
                                                     .joined =
                                                         [answer](absl::StatusOr<std::vector<Member>> members) {
                                                           answer->members = std::move(members);
                                                           answer->come.Notify();
                                                         },
                                                     .verdict = std::move(verdict),
                                                 });
  });
  if (!answer->come.WaitForNotificationWithDeadline(options.deadline + kJoinGrace)) {
    return absl::DeadlineExceededError(absl::StrCat(Describe(options.self), " has connected to the membership server ",
                                                    "of rank 0, which does not answer: stopped, or not reachable any ",
                                                    "more?"));
  }
  TUTTI_ASSIGN_OR_RETURN(members_, std::move(answer->members));
  return absl::OkStatus();
}

// A server that fails before it has heard of this rank leaves the reason in the store.
absl::Status Explain(Store& store, const Identity& self, absl::Status status) {
  if (self.rank == 0 || !absl::IsUnavailable(status)) return status;
  const absl::StatusOr<std::string> published = store.Get(KeyOf(self), absl::Now() + kJoinGrace);
  absl::string_view text = published.ok() ? absl::string_view(*published) : "";
  return absl::ConsumePrefix(&text, kFailed) ? absl::UnavailableError(text) : status;
}

MembershipImpl::~MembershipImpl() {
  // If the store fails, those who come will find nobody at the address.
  if (store_ != nullptr) store_->Set(key_, kEnded).IgnoreError();
  absl::Notification client_left, server_closed;
  loop_.Post([&] {
    if (client_ == nullptr) return client_left.Notify();
    client_->Leave(kLeavePatience, [&] { client_left.Notify(); });
  });
  client_left.WaitForNotification();
  loop_.Post([&] {
    client_.reset();
    if (server_ == nullptr) return server_closed.Notify();
    server_->Close(kServerPatience, [&] { server_closed.Notify(); });
  });
  server_closed.WaitForNotification();
  loop_.RunAndWait([&] { server_.reset(); });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Membership>> Membership::Join(EventLoop& loop, Store& store,
                                                             const MembershipOptions& options, const Journal& journal,
                                                             absl::AnyInvocable<void(absl::Status)> verdict) {
  auto membership = std::make_unique<MembershipImpl>(loop);
  absl::Status status;
  if (options.self.rank == 0) status = OpenServer(*membership, store, options);
  if (status.ok()) {
    absl::StatusOr<Fd> socket = FindServer(store, options);
    status = socket.ok() ? membership->Enter(*std::move(socket), options, journal, std::move(verdict))
                         : std::move(socket).status();
  }
  if (status.ok()) return membership;
  if (options.self.rank != 0) return Explain(store, options.self, std::move(status));
  // If the store fails as well, the others find out by their deadline.
  store.Set(KeyOf(options.self), absl::StrCat(kFailed, status.message())).IgnoreError();
  membership->Unpublish();
  membership->FailServer(status);
  return status;
}

absl::StatusOr<std::unique_ptr<Membership>> Membership::JoinAt(EventLoop& loop, const SocketAddress& server,
                                                               Fd listener, const MembershipOptions& options,
                                                               const Journal& journal,
                                                               absl::AnyInvocable<void(absl::Status)> verdict) {
  auto membership = std::make_unique<MembershipImpl>(loop);
  if (listener.valid()) membership->Serve(std::move(listener), options);
  const absl::Time soon = std::min(options.deadline, absl::Now() + kListeningPatience);
  TUTTI_ASSIGN_OR_RETURN(Fd socket, ConnectToServer(server, options, soon));
  TUTTI_RETURN_IF_ERROR(membership->Enter(std::move(socket), options, journal, std::move(verdict)));
  return membership;
}

}  // namespace tutti
