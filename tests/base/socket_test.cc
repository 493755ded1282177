#include "src/base/socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/thread.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

SocketAddress Address(const std::string& text) {
  absl::StatusOr<SocketAddress> address = SocketAddress::Parse(text);
  EXPECT_TRUE(address.ok()) << address.status();
  return address.value_or(SocketAddress());
}

bool WaitFor(int fd, short events) {
  pollfd entry = {fd, events, 0};
  return ::poll(&entry, 1, 5000) == 1;
}

Fd AcceptWaiting(int listener) {
  EXPECT_TRUE(WaitFor(listener, POLLIN));
  absl::StatusOr<Fd> accepted = Accept(listener);
  EXPECT_TRUE(accepted.ok()) << accepted.status();
  return accepted.ok() ? *std::move(accepted) : Fd();
}

int IntOption(int fd, int level, int option) {
  int value = -1;
  socklen_t length = sizeof(value);
  ::getsockopt(fd, level, option, &value, &length);
  return value;
}

void ExpectPrivateAndNonBlocking(int fd) {
  EXPECT_NE(::fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
}

bool HaveIpv6() { return Listen(Address("[::1]:0")).ok(); }

// An address that is taken, so that nobody else gets it, but without a listener.
class Nobody {
 public:
  Nobody() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    const SocketAddress any = Address("127.0.0.1:0");
    EXPECT_EQ(::bind(fd_.get(), any.get(), any.length()), 0);
    address_ = LocalAddress(fd_.get()).value();
  }
  const SocketAddress& address() const { return address_; }

 private:
  Fd fd_;
  SocketAddress address_;
};

// Listens, but never accepts, and its queue is full: further connections get no answer.
class FullListener {
 public:
  FullListener() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    SocketAddress any = Address("127.0.0.1:0");
    EXPECT_EQ(::bind(listener_.get(), any.get(), any.length()), 0);
    EXPECT_EQ(::listen(listener_.get(), 0), 0);
    address_ = LocalAddress(listener_.get()).value();
    for (int i = 0; i < 8; ++i) filling_.push_back(StartConnect(address_).value());
    EXPECT_TRUE(WaitFor(filling_.front().get(), POLLOUT));
  }
  const SocketAddress& address() const { return address_; }

 private:
  Fd listener_;
  SocketAddress address_;
  std::vector<Fd> filling_;
};

TEST(SocketAddressTest, ParsesWhatItPrints) {
  for (const char* text : {"10.0.0.1:29500", "[::1]:29500", "0.0.0.0:0", "[::]:65535", "[::ffff:10.1.2.3]:80",
                           "[2001:db8::42]:1", "[fe80::1%lo]:29500"}) {
    absl::StatusOr<SocketAddress> address = SocketAddress::Parse(text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->ToString(), text);
  }
}

TEST(SocketAddressTest, KnowsItsParts) {
  const SocketAddress v4 = Address("10.0.0.1:29500");
  EXPECT_EQ(v4.family(), AF_INET);
  EXPECT_EQ(v4.port(), 29500);
  EXPECT_EQ(v4.Host(), "10.0.0.1");
  EXPECT_EQ(v4.WithPort(7).ToString(), "10.0.0.1:7");
  const SocketAddress v6 = Address("[fe80::1%lo]:29500");
  EXPECT_EQ(v6.family(), AF_INET6);
  EXPECT_EQ(v6.port(), 29500);
  EXPECT_EQ(v6.Host(), "fe80::1%lo");
  EXPECT_EQ(v6.WithPort(7).ToString(), "[fe80::1%lo]:7");
  EXPECT_NE(reinterpret_cast<const sockaddr_in6*>(v6.get())->sin6_scope_id, 0u);
  EXPECT_EQ(SocketAddress().family(), AF_UNSPEC);
}

TEST(SocketAddressTest, TellsLoopback) {
  for (const char* text : {"127.0.0.1:1", "127.8.9.10:1", "[::1]:1", "[::ffff:127.0.0.1]:1"}) {
    EXPECT_TRUE(Address(text).IsLoopback()) << text;
  }
  for (const char* text : {"10.0.0.1:1", "0.0.0.0:1", "[::]:1", "[fe80::1%lo]:1", "[::ffff:10.0.0.1]:1"}) {
    EXPECT_FALSE(Address(text).IsLoopback()) << text;
  }
  EXPECT_FALSE(SocketAddress().IsLoopback());
}

TEST(SocketAddressTest, RefusesWhatIsNoNumericAddress) {
  for (const char* text : {"",
                           ":",
                           "10.0.0.1",
                           "10.0.0.1:",
                           ":29500",
                           "10.0.0.1:65536",
                           "10.0.0.1:4294996796",
                           "10.0.0.1:-1",
                           "10.0.0.1:+1",
                           "10.0.0.1: 1",
                           "10.0.0.1:1 ",
                           "10.0.0.1:0x1",
                           "256.1.1.1:1",
                           "localhost:1",
                           "[]:1",
                           "[::1]",
                           "[10.0.0.1]:1",
                           "[::1:1",
                           "[::1%lo]:1",
                           "[fe80::1%no-such-interface]:1",
                           "[fe80::1%]:1",
                           "[::g]:1",
                           "http://10.0.0.1:1",
                           "10.0.0.1:99999999999999999999"}) {
    EXPECT_EQ(SocketAddress::Parse(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(SocketAddressTest, ABareIpv6AddressIsAmbiguous) {
  absl::Status status = SocketAddress::Parse("::1:29500").status();
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("\"::1:29500\""), HasSubstr("[::1]:29500")));
}

TEST(SocketAddressTest, ErrorsEscapeControlCharacters) {
  absl::Status status = SocketAddress::Parse("a\n\x1b[2J:1").status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"a\\n\\x1b[2J:1\""));
}

TEST(ResolveTest, TakesNumericHosts) {
  absl::StatusOr<std::vector<SocketAddress>> addresses = Resolve("127.0.0.1", 29500);
  ASSERT_TRUE(addresses.ok()) << addresses.status();
  ASSERT_EQ(addresses->size(), 1u);
  EXPECT_EQ(addresses->front().ToString(), "127.0.0.1:29500");
  addresses = Resolve("fe80::1%lo", 29500);
  ASSERT_TRUE(addresses.ok()) << addresses.status();
  EXPECT_EQ(addresses->front().ToString(), "[fe80::1%lo]:29500");
}

TEST(ResolveTest, NamesWhatCannotBeResolved) {
  absl::Status status = Resolve("no-such-host.invalid", 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"no-such-host.invalid\""));
  EXPECT_FALSE(Resolve("", 1).ok());
}

TEST(ListenTest, TakesAnyPort) {
  absl::StatusOr<Fd> listener = Listen(Address("127.0.0.1:0"));
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_NE(LocalAddress(listener->get())->port(), 0);
  EXPECT_EQ(IntOption(listener->get(), SOL_SOCKET, SO_REUSEADDR), 1);
  ExpectPrivateAndNonBlocking(listener->get());
}

TEST(ListenTest, RefusesAPortInUseByName) {
  absl::StatusOr<Fd> first = Listen(Address("127.0.0.1:0"));
  const SocketAddress taken = LocalAddress(first->get()).value();
  absl::Status status = Listen(taken).status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(taken.ToString()), HasSubstr("in use")));
}

TEST(ListenTest, TakesTheFirstFreePortOfARange) {
  absl::StatusOr<Fd> first = Listen(Address("127.0.0.1:0"));
  const uint16_t taken = LocalAddress(first->get())->port();
  const PortRange range = {taken, static_cast<uint16_t>(std::min(65535, taken + 50))};
  absl::StatusOr<Fd> second = Listen(Address("127.0.0.1:0"), range);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_GT(LocalAddress(second->get())->port(), range.first);
  EXPECT_LE(LocalAddress(second->get())->port(), range.last);
}

TEST(ListenTest, NamesARangeThatIsFull) {
  absl::StatusOr<Fd> first = Listen(Address("127.0.0.1:0"));
  const uint16_t taken = LocalAddress(first->get())->port();
  absl::Status status = Listen(Address("127.0.0.1:0"), {taken, taken}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("from ", taken, " to ", taken)));
}

TEST(ListenTest, TheAnyAddressOfIpv6TakesIpv4Too) {
  if (!HaveIpv6()) GTEST_SKIP() << "no IPv6 on this host";
  absl::StatusOr<Fd> listener = Listen(Address("[::]:0"));
  ASSERT_TRUE(listener.ok()) << listener.status();
  const uint16_t port = LocalAddress(listener->get())->port();
  absl::StatusOr<Fd> v4 = ConnectAny({Address("127.0.0.1:0").WithPort(port)}, absl::Now() + absl::Seconds(5));
  EXPECT_TRUE(v4.ok()) << v4.status();
  absl::StatusOr<Fd> mapped =
      ConnectAny({Address("[::ffff:127.0.0.1]:0").WithPort(port)}, absl::Now() + absl::Seconds(5));
  EXPECT_TRUE(mapped.ok()) << mapped.status();
}

TEST(ConnectTest, ConnectsAndKnowsBothEnds) {
  absl::StatusOr<Fd> listener = Listen(Address("127.0.0.1:0"));
  const SocketAddress address = LocalAddress(listener->get()).value();
  absl::StatusOr<Fd> client = StartConnect(address, Address("127.0.0.2:0"));
  ASSERT_TRUE(client.ok()) << client.status();
  ASSERT_TRUE(WaitFor(client->get(), POLLOUT));
  EXPECT_TRUE(FinishConnect(client->get(), address).ok());
  Fd server = AcceptWaiting(listener->get());
  EXPECT_EQ(PeerAddress(client->get())->ToString(), address.ToString());
  EXPECT_EQ(PeerAddress(server.get())->ToString(), LocalAddress(client->get())->ToString());
  EXPECT_EQ(LocalAddress(client->get())->Host(), "127.0.0.2");
  for (int fd : {client->get(), server.get()}) {
    ExpectPrivateAndNonBlocking(fd);
    EXPECT_EQ(IntOption(fd, IPPROTO_TCP, TCP_NODELAY), 1);
  }
}

TEST(ConnectTest, RefusalSaysThatNobodyListens) {
  Nobody nobody;
  absl::StatusOr<Fd> client = StartConnect(nobody.address());
  absl::Status status = client.status();
  if (client.ok()) {
    ASSERT_TRUE(WaitFor(client->get(), POLLOUT));
    status = FinishConnect(client->get(), nobody.address());
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(std::string(status.message()), nobody.address().ToString() + ": refused (nobody listening)");
}

TEST(ConnectTest, AConnectionToItselfIsARefusal) {
  const SocketAddress self = Nobody().address();
  absl::StatusOr<Fd> client = StartConnect(self, self);
  ASSERT_TRUE(client.ok()) << client.status();
  ASSERT_TRUE(WaitFor(client->get(), POLLOUT));
  EXPECT_EQ(FinishConnect(client->get(), self).code(), absl::StatusCode::kUnavailable);
}

TEST(ConnectTest, RefusesASourceThatIsNotThisHosts) {
  absl::StatusOr<Fd> client = StartConnect(Address("127.0.0.1:1"), Address("192.0.2.1:0"));
  EXPECT_FALSE(client.ok());
  EXPECT_THAT(std::string(client.status().message()), HasSubstr("192.0.2.1"));
}

TEST(ConnectAnyTest, TakesTheAddressThatAnswers) {
  FullListener silent;
  Nobody nobody;
  absl::StatusOr<Fd> listener = Listen(Address("127.0.0.1:0"));
  const SocketAddress address = LocalAddress(listener->get()).value();
  absl::StatusOr<Fd> client =
      ConnectAny({nobody.address(), silent.address(), address}, absl::Now() + absl::Seconds(20));
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_EQ(PeerAddress(client->get())->ToString(), address.ToString());
  ExpectPrivateAndNonBlocking(client->get());
}

TEST(ConnectAnyTest, WaitsForAListenerThatComesLater) {
  Nobody nobody;
  const SocketAddress later = nobody.address();
  absl::StatusOr<Fd> client = absl::UnknownError("not run");
  Thread thread("tutti-test", [&] { client = ConnectAny({later}, absl::Now() + absl::Seconds(20)); });
  // The first attempts may or may not be refused before this.
  absl::StatusOr<Fd> listener = Listen(later);
  ASSERT_TRUE(listener.ok()) << listener.status();
  thread.Join();
  EXPECT_TRUE(client.ok()) << client.status();
}

TEST(ConnectAnyTest, NamesEachAddressWithItsReason) {
  FullListener silent;
  Nobody nobody;
  absl::Status status =
      ConnectAny({nobody.address(), silent.address()}, absl::Now() + absl::Milliseconds(300)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(nobody.address().ToString() + ": refused (nobody listening)"),
                    HasSubstr(silent.address().ToString() + ": no answer (dropped by a firewall?)")));
}

TEST(ConnectAnyTest, OnlyRefusalsAreUnavailable) {
  Nobody nobody;
  absl::Status status = ConnectAny({nobody.address()}, absl::Now() + absl::Milliseconds(50)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
}

TEST(ConnectAnyTest, EndsAtOnceWithoutTimeOrAddresses) {
  EXPECT_FALSE(ConnectAny({Nobody().address()}, absl::InfinitePast()).ok());
  EXPECT_EQ(ConnectAny({}, absl::InfiniteFuture()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(AcceptTest, NobodyWaiting) {
  absl::StatusOr<Fd> listener = Listen(Address("127.0.0.1:0"));
  EXPECT_EQ(Accept(listener->get()).status().code(), absl::StatusCode::kUnavailable);
}

TEST(DescriptorLimitTest, IsNamedWithTheWayOut) {
  absl::StatusOr<Fd> listener = Listen(Address("127.0.0.1:0"));
  const SocketAddress address = LocalAddress(listener->get()).value();
  absl::StatusOr<Fd> client = ConnectAny({address}, absl::Now() + absl::Seconds(5));
  ASSERT_TRUE(client.ok());
  ASSERT_TRUE(WaitFor(listener->get(), POLLIN));

  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const std::vector<absl::Status> failures = {Accept(listener->get()).status(), Listen(address).status(),
                                              ConnectAny({address}, absl::InfiniteFuture()).status()};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  for (const absl::Status& status : failures) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("limit of 0"), HasSubstr("ulimit -n")));
  }
  EXPECT_TRUE(Accept(listener->get()).ok()) << "the connection should still wait";
}

}  // namespace
}  // namespace tutti
