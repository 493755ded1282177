// What only a tcp store does: who may connect, and what the two sides learn of each other's end.

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spdlog/sinks/ringbuffer_sink.h"
#include "src/base/event_loop.h"
#include "src/base/frame_connection.h"
#include "src/base/log.h"
#include "src/base/socket.h"
#include "src/base/thread.h"
#include "src/store/store.h"
#include "src/store/stores.h"
#include "src/store/tcp_messages.h"
#include "src/store/tcp_store_server.h"
#include "tests/store/store_test_util.h"

namespace tutti {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using enum absl::StatusCode;

// The lines logged while it lives. Made before, and destroyed after, all loops.
class LogCapture {
 public:
  LogCapture() : sinks_before_(Logger().sinks()) { Logger().sinks() = {sink_}; }
  ~LogCapture() { Logger().sinks() = sinks_before_; }
  std::vector<std::string> Lines() { return sink_->last_formatted(); }

 private:
  std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt> sink_ = std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(100);
  std::vector<spdlog::sink_ptr> sinks_before_;
};

Fd ListenOnLoopback() { return Listen(SocketAddress::Parse("127.0.0.1:0").value()).value(); }

// A peer of which the test sends and receives every byte.
class RawPeer {
 public:
  explicit RawPeer(const SocketAddress& to) : RawPeer(ConnectAny({to}, Soon()).value()) {}
  explicit RawPeer(Fd socket) : socket_(std::move(socket)) {
    fcntl(socket_.get(), F_SETFL, 0);
    const timeval limit{.tv_sec = 20, .tv_usec = 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  }
  static RawPeer AcceptOne(const Fd& listener) {
    pollfd ready{.fd = listener.get(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&ready, 1, 20000), 1);
    return RawPeer(Accept(listener.get()).value());
  }

  void SendBytes(const std::string& bytes) {
    EXPECT_EQ(send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  void SendFrame(const std::string& payload) { SendBytes(EncodeFrame(payload)); }
  void SendHello(const Identity& from, std::string purpose = "store") {
    SendFrame(Encode(Hello{.purpose = std::move(purpose), .from = from, .refusal = "", .signature = ""}));
  }
  std::string ReceiveFrame() {
    const std::string header = Receive(8);
    if (header.size() < 8) return "";
    size_t size = 0;
    for (int i = 0; i < 4; ++i) size |= size_t{static_cast<unsigned char>(header[4 + i])} << (8 * i);
    return Receive(size);
  }
  Hello ReceiveHello() { return DecodeHello(ReceiveFrame()).value(); }
  // Whether the peer ends the connection, without a word more.
  bool IsEnded() {
    char byte;
    const ssize_t got = recv(socket_.get(), &byte, 1, 0);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  }

 private:
  std::string Receive(size_t size) {
    std::string bytes(size, '\0');
    const ssize_t got = recv(socket_.get(), bytes.data(), size, MSG_WAITALL);
    bytes.resize(std::max<ssize_t>(got, 0));
    return bytes;
  }

  Fd socket_;
};

class TcpStoreTest : public testing::Test {
 protected:
  void StartServer(const TcpStoreServerOptions& options = {}, Fd listener = ListenOnLoopback()) {
    server_ = StartTcpStoreServer(*server_loop_, std::move(listener), TestIdentity(0, 4), options).value();
  }
  absl::StatusOr<std::unique_ptr<Store>> Connect(const Identity& self, absl::Time deadline = Soon()) {
    return ConnectTcpStore(*client_loop_, {server_->address()}, self, deadline);
  }
  std::unique_ptr<Store> Connect(int rank = 1) { return Connect(TestIdentity(rank, 4)).value(); }
  // Waits for the loop to have done what it had to.
  void Settle() {
    server_loop_->RunAndWait([] {});
  }

  LogCapture log_;
  std::unique_ptr<EventLoop> server_loop_ = EventLoop::Start("server").value();
  std::unique_ptr<EventLoop> client_loop_ = EventLoop::Start("client").value();
  std::unique_ptr<TcpStoreServer> server_;
};

TEST_F(TcpStoreTest, StoresAreNamedByTheirAddress) {
  StartServer();
  EXPECT_EQ(Connect()->Describe(), "tcp store at " + server_->address().ToString());
}

TEST_F(TcpStoreTest, AnInheritedBlockingListenerDoesNotBlockTheLoop) {
  Fd listener = ListenOnLoopback();
  ASSERT_EQ(fcntl(listener.get(), F_SETFL, 0), 0);
  StartServer({}, std::move(listener));
  EXPECT_THAT(Connect()->Set("key", "x"), IsOk());
}

TEST_F(TcpStoreTest, AnotherJobIsRefusedByNameOnBothSides) {
  StartServer();
  const auto store = Connect(TestIdentity(1, 4, "another"));
  EXPECT_THAT(store.status(), Fails(kFailedPrecondition, server_->address().ToString(), "\"test-job\"", "\"another\""));
  Settle();
  EXPECT_THAT(log_.Lines(), ElementsAre(AllOf(HasSubstr("refused"), HasSubstr("\"another\""))));
}

TEST_F(TcpStoreTest, AnotherWorldSizeIsRefusedWithBothValues) {
  StartServer();
  EXPECT_THAT(Connect(TestIdentity(1, 5)).status(), Fails(kFailedPrecondition, "world size", "4", "5"));
}

TEST_F(TcpStoreTest, AnotherPurposeIsRefused) {
  StartServer();
  RawPeer peer(server_->address());
  peer.SendHello(TestIdentity(1, 4), "membership");
  EXPECT_THAT(peer.ReceiveHello().refusal, AllOf(HasSubstr("this is a store"), HasSubstr("membership")));
  EXPECT_TRUE(peer.IsEnded());
}

TEST_F(TcpStoreTest, StrangersAreDroppedWithOneLineAndDisturbNobody) {
  StartServer();
  auto store = Connect();
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), std::string(8, '\xff'),
        // A frame larger than a hello may be.
        EncodeFrame(std::string(kHelloBytesMax + 1, 'x')).substr(0, 8), EncodeFrame("no hello"), EncodeFrame("")}) {
    const size_t lines = log_.Lines().size();
    RawPeer peer(server_->address());
    peer.SendBytes(bytes);
    while (!peer.IsEnded()) {
    }
    Settle();
    EXPECT_EQ(log_.Lines().size(), lines + 1) << bytes;
  }
  EXPECT_THAT(store->Set("key", "x"), IsOk());
}

TEST_F(TcpStoreTest, SilentConnectionsAreDropped) {
  StartServer({.hello_timeout = absl::Milliseconds(20)});
  RawPeer peer(server_->address());
  EXPECT_TRUE(peer.IsEnded());
  Settle();
  EXPECT_THAT(log_.Lines(), ElementsAre(HasSubstr("no hello within 20ms")));
}

TEST_F(TcpStoreTest, AClientThatSpeaksNonsenseIsDropped) {
  StartServer();
  const std::string wait = Encode(StoreCall{
      .id = 1, .timeout = absl::Hours(1), .request = {.verb = Verb::kWait, .keys = {"absent"}, .values = {}}});
  for (const std::vector<std::string>& frames : {std::vector<std::string>{"nonsense"}, {""}, {wait, wait}}) {
    RawPeer peer(server_->address());
    peer.SendHello(TestIdentity(2, 4));
    EXPECT_EQ(peer.ReceiveHello().refusal, "");
    for (const std::string& frame : frames) peer.SendFrame(frame);
    EXPECT_TRUE(peer.IsEnded());
  }
  Settle();
  EXPECT_EQ(log_.Lines().size(), 3u);
  EXPECT_THAT(log_.Lines().back(), AllOf(HasSubstr("rank 2"), HasSubstr("call number 1 used twice")));
}

TEST_F(TcpStoreTest, AClientThatVanishesTakesItsWaitingCallsAlong) {
  StartServer();
  {
    RawPeer peer(server_->address());
    peer.SendHello(TestIdentity(2, 4));
    EXPECT_EQ(peer.ReceiveHello().refusal, "");
    peer.SendFrame(Encode(
        StoreCall{.id = 1, .timeout = absl::Hours(1), .request = {.verb = Verb::kGet, .keys = {"key"}, .values = {}}}));
  }
  auto store = Connect();
  EXPECT_THAT(store->Set("key", "x"), IsOk());
  EXPECT_EQ(store->Get("key", Soon()).value(), "x");
}

TEST_F(TcpStoreTest, AFullServerRefusesClearly) {
  StartServer({.capacity_bytes = 1000});
  auto store = Connect();
  EXPECT_THAT(store->Set("key", std::string(1001, 'x')),
              Fails(kResourceExhausted, store->Describe(), "the store is full", "1000 bytes"));
  EXPECT_THAT(store->Set("key", "x"), IsOk());
}

TEST_F(TcpStoreTest, AThousandClientsWaitForOneKey) {
  constexpr size_t kClients = 1000, kDescriptors = 2 * kClients + 100;
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max < kDescriptors) GTEST_SKIP() << "needs " << kDescriptors << " descriptors: ulimit -n";
  const rlimit raised{.rlim_cur = std::max<rlim_t>(limit.rlim_cur, kDescriptors), .rlim_max = limit.rlim_max};
  setrlimit(RLIMIT_NOFILE, &raised);
  StartServer();
  {
    const std::string wait = Encode(
        StoreCall{.id = 9, .timeout = absl::Minutes(1), .request = {.verb = Verb::kGet, .keys = {"go"}, .values = {}}});
    std::vector<RawPeer> peers;
    for (size_t i = 0; i < kClients; ++i) {
      peers.emplace_back(server_->address());
      peers.back().SendHello(TestIdentity(1, 4));
      peers.back().SendFrame(wait);
    }
    for (RawPeer& peer : peers) ASSERT_EQ(peer.ReceiveHello().refusal, "");
    ASSERT_THAT(Connect()->Set("go", "now"), IsOk());
    for (RawPeer& peer : peers) {
      const auto answer = DecodeStoreAnswer(peer.ReceiveFrame());
      ASSERT_THAT(answer, IsOk());
      EXPECT_EQ((*answer)->id, 9u);
      EXPECT_THAT((*answer)->response.values, ElementsAre("now"));
    }
  }
  server_.reset();
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Leaves the process without a free descriptor.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    Fd highest(open("/dev/null", O_RDONLY | O_CLOEXEC));
    const rlimit low{.rlim_cur = static_cast<rlim_t>(highest.get()) + 1, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &low);
    fillers_.push_back(std::move(highest));
    for (;;) {
      Fd filler(open("/dev/null", O_RDONLY | O_CLOEXEC));
      if (!filler.valid()) break;
      fillers_.push_back(std::move(filler));
    }
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_;
  std::vector<Fd> fillers_;
};

TEST_F(TcpStoreTest, OutOfDescriptorsNewClientsWaitAndTheOthersGoOn) {
  StartServer({.accept_pause = absl::Milliseconds(5)});
  auto store = Connect();
  absl::Notification resume, blocked;
  server_loop_->Post([&] {
    blocked.Notify();
    resume.WaitForNotification();
  });
  blocked.WaitForNotification();
  RawPeer waiting(server_->address());
  // Checked afterwards: without descriptors, UBSan takes objects of types that it has not seen for broken ones.
  std::vector<absl::Status> statuses;
  {
    const NoDescriptors none;
    resume.Notify();
    // Many rounds of the pause.
    for (int i = 0; i < 20; ++i) {
      statuses.push_back(store->Get("absent", absl::Now() + absl::Milliseconds(5)).status());
    }
  }
  EXPECT_THAT(statuses, testing::Each(Fails(kDeadlineExceeded, "absent")));
  waiting.SendHello(TestIdentity(2, 4));
  EXPECT_EQ(waiting.ReceiveHello().refusal, "");
  EXPECT_THAT(log_.Lines(), ElementsAre(AllOf(HasSubstr("new connections have to wait"), HasSubstr("ulimit -n"))));
}

TEST_F(TcpStoreTest, TheServerWaitsForItsClientsToSayGoodbye) {
  StartServer({.leave_timeout = absl::Minutes(1)});
  const SocketAddress address = server_->address();
  auto store = Connect();
  Thread ending("ending", [&] { server_.reset(); });
  // Refused now, so the server is ending.
  while (ConnectTcpStore(*client_loop_, {address}, TestIdentity(2, 4), Brief()).ok()) {
  }
  EXPECT_THAT(store->Set("key", "x"), IsOk());
  EXPECT_EQ(store->Get("key", Soon()).value(), "x");
  store.reset();
  ending.Join();
  EXPECT_THAT(log_.Lines(), IsEmpty());
}

TEST_F(TcpStoreTest, ClientsThatAreLeftLearnThatTheServerHasEnded) {
  StartServer({.leave_timeout = absl::Milliseconds(20)});
  auto store = Connect();
  absl::Status waiting;
  {
    Thread get("get", [&] { waiting = store->Get("absent", Soon()).status(); });
    server_.reset();
  }
  EXPECT_THAT(waiting, Fails(kUnavailable, store->Describe(), "the store server has ended"));
  EXPECT_THAT(store->Set("key", "x"), Fails(kUnavailable, "the store server has ended")) << "and so for ever";
  EXPECT_THAT(log_.Lines(), ElementsAre(AllOf(HasSubstr("still connected"), HasSubstr("rank 1"))));
}

TEST_F(TcpStoreTest, ALostConnectionFailsPendingAndLaterCalls) {
  const Fd listener = ListenOnLoopback();
  const SocketAddress address = LocalAddress(listener.get()).value();
  absl::Status waiting, later;
  {
    Thread client("client", [&] {
      auto store = ConnectTcpStore(*client_loop_, {address}, TestIdentity(1, 4), Soon()).value();
      waiting = store->Get("absent", Soon()).status();
      later = store->Set("key", "x");
    });
    RawPeer server = RawPeer::AcceptOne(listener);
    EXPECT_EQ(server.ReceiveHello().purpose, "store");
    server.SendHello(TestIdentity(0, 4));
    EXPECT_NE(server.ReceiveFrame(), "") << "the call";
  }
  EXPECT_THAT(waiting, Fails(kUnavailable, "tcp store at " + address.ToString(), "closed the connection"));
  EXPECT_THAT(later, Fails(kUnavailable, "tcp store at " + address.ToString(), "closed the connection"));
}

TEST_F(TcpStoreTest, AServerThatEndsAtOnceIsTriedAgain) {
  Fd listener = ListenOnLoopback();
  const SocketAddress address = LocalAddress(listener.get()).value();
  absl::StatusOr<std::unique_ptr<Store>> store;
  {
    Thread client("client", [&] { store = ConnectTcpStore(*client_loop_, {address}, TestIdentity(1, 4), Soon()); });
    RawPeer::AcceptOne(listener);
    StartServer({}, std::move(listener));
  }
  ASSERT_THAT(store, IsOk());
  EXPECT_THAT((*store)->Set("key", "x"), IsOk());
}

TEST_F(TcpStoreTest, SomethingElseOnThePortIsToldApartAtOnce) {
  const Fd listener = ListenOnLoopback();
  const SocketAddress address = LocalAddress(listener.get()).value();
  absl::Status status;
  {
    Thread client("client", [&] {
      status = ConnectTcpStore(*client_loop_, {address}, TestIdentity(1, 4), absl::InfiniteFuture()).status();
    });
    RawPeer server = RawPeer::AcceptOne(listener);
    EXPECT_EQ(server.ReceiveHello().purpose, "store");
    server.SendBytes("HTTP/1.1 400 Bad Request\r\n\r\n");
    EXPECT_TRUE(server.IsEnded());
  }
  EXPECT_THAT(status, Fails(kInvalidArgument, address.ToString(), "HTTP"));
}

TEST_F(TcpStoreTest, AServerThatDoesNotGreetIsGivenUpAtTheDeadline) {
  const Fd listener = ListenOnLoopback();
  const SocketAddress address = LocalAddress(listener.get()).value();
  EXPECT_THAT(ConnectTcpStore(*client_loop_, {address}, TestIdentity(1, 4), Brief()).status(),
              Fails(kDeadlineExceeded, address.ToString(), "got no hello"));
}

TEST_F(TcpStoreTest, AStoppedServerEndsTheWaitSoonAfterTheDeadline) {
  StartServer();
  auto store = Connect();
  absl::Notification resume;
  server_loop_->Post([&] { resume.WaitForNotification(); });
  const absl::Time begin = absl::Now();
  EXPECT_THAT(store->Get("key", Brief()).status(),
              Fails(kDeadlineExceeded, store->Describe(), "does not answer", "\"key\""));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(5));
  resume.Notify();
  EXPECT_THAT(store->Set("key", "x"), IsOk());
}

TEST_F(TcpStoreTest, ClientsAndServersComeAndGoQuietly) {
  for (int i = 0; i < 20; ++i) {
    StartServer();
    auto one = Connect(1), two = Connect(2);
    EXPECT_THAT(one->Set("key", "x"), IsOk());
    one.reset();
    two.reset();
    server_.reset();
  }
  EXPECT_THAT(log_.Lines(), IsEmpty());
}

}  // namespace
}  // namespace tutti
