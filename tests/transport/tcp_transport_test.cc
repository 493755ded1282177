#include "src/transport/tcp/tcp_transport.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/frame_connection.h"
#include "src/identity/hello.h"
#include "tests/transport/tcp_group.h"
#include "tests/transport/test_rank.h"
#include "tests/transport/transport_conformance.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

INSTANTIATE_TEST_SUITE_P(Tcp, TransportConformance,
                         ::testing::Values(TransportUnderTest{"Loopback", [](int size) { return MakeTcpGroup(size); },
                                                              40 << 20}),
                         TransportName);

std::set<int> OpenDescriptors() {
  std::set<int> descriptors;
  DIR* directory = ::opendir("/proc/self/fd");
  while (const dirent* entry = ::readdir(directory)) {
    int fd = 0;
    if (absl::SimpleAtoi(entry->d_name, &fd) && fd != ::dirfd(directory)) descriptors.insert(fd);
  }
  ::closedir(directory);
  return descriptors;
}

class TcpTransportTest : public ::testing::Test {
 protected:
  void Make(std::vector<TcpOptions> options) {
    ranks_.clear();
    for (TcpOptions& each : options) {
      addresses_.push_back(each.ranks[each.rank].address);
      ranks_.emplace_back(MakeTcpEndpoint(std::move(each)).value());
    }
  }

  bool PollUntil(const std::function<bool()>& condition) { return tutti::PollUntil(ranks_, condition); }

  // Both directions work between two ranks.
  void ExpectExchange(int a, int b) {
    const size_t before[] = {ranks_[a].received().size(), ranks_[b].received().size()};
    ranks_[a].Expect(b);
    ranks_[b].Expect(a);
    ranks_[a].Send(b, "ping");
    ranks_[b].Send(a, "pong");
    EXPECT_TRUE(PollUntil(
        [&] { return ranks_[a].received().size() == before[0] + 1 && ranks_[b].received().size() == before[1] + 1; }));
  }

  // Rank 0 and 1 use each other; what rank 0 is told when that fails.
  std::string WhyLost() {
    ranks_[0].Expect(1);
    if (!PollUntil([&] { return !ranks_[0].lost().empty(); })) return "";
    return std::string(ranks_[0].lost()[0].second.message());
  }

  // Connects to the rank's listener, says something, and polls until the rank has closed the connection; what the rank
  // said.
  std::string Tell(int rank, const std::string& bytes) {
    const SocketAddress address = SocketAddress::Parse(addresses_[rank]).value();
    const Fd socket = ConnectAny({address}, absl::Now() + kTestPatience).value();
    EXPECT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    std::string answer;
    bool closed = false;
    EXPECT_TRUE(PollUntil([&] {
      char buffer[4096];
      const ssize_t count = ::recv(socket.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
      if (count > 0) answer.append(buffer, count);
      closed = count == 0 || (count < 0 && errno == ECONNRESET);
      return closed;
    }));
    return answer;
  }

  static Hello DataHello(const Identity& from, int channel = 0) {
    Hello hello;
    hello.purpose = "data";
    hello.from = from;
    hello.channel = channel;
    return hello;
  }

  std::vector<std::string> addresses_;
  std::vector<TestRank> ranks_;
};

TEST_F(TcpTransportTest, RunsOverIpv6) {
  absl::StatusOr<Fd> probe = Listen(SocketAddress::Parse("[::1]:0").value());
  if (!probe.ok()) GTEST_SKIP() << "no IPv6 loopback here: " << probe.status();
  Make(TestTcpOptions(2, "[::1]"));
  ExpectExchange(0, 1);
}

TEST_F(TcpTransportTest, EndpointsAreCheckedWhenTheyAreMade) {
  std::vector<TcpOptions> options = TestTcpOptions(2);
  options[0].rank = 2;
  EXPECT_EQ(MakeTcpEndpoint(std::move(options[0])).status().code(), absl::StatusCode::kInvalidArgument);
  options[1].ranks[0].address = "localhost";
  const absl::Status bad_address = MakeTcpEndpoint(std::move(options[1])).status();
  EXPECT_THAT(std::string(bad_address.message()), AllOf(HasSubstr("rank 0"), HasSubstr("localhost")));
  options = TestTcpOptions(2);
  options[1].listener.Close();
  EXPECT_THAT(std::string(MakeTcpEndpoint(std::move(options[1])).status().message()), HasSubstr("listener"));
  options[0].ranks[1].identity.rank = 0;
  EXPECT_THAT(std::string(MakeTcpEndpoint(std::move(options[0])).status().message()), HasSubstr("listed as rank 1"));
}

TEST_F(TcpTransportTest, OpensConnectionsOnlyBetweenRanksThatUseEachOther) {
  Make(TestTcpOptions(4));
  const size_t before = OpenDescriptors().size();
  ExpectExchange(0, 3);
  EXPECT_EQ(OpenDescriptors().size(), before + 2);
  ranks_[1].Send(2, "the higher rank need not want it");
  EXPECT_TRUE(PollUntil([&] { return ranks_[1].unsent() == 0; }));
  EXPECT_EQ(OpenDescriptors().size(), before + 4);
}

TEST_F(TcpTransportTest, GivesBackAllDescriptors) {
  const std::set<int> before = OpenDescriptors();
  for (int i = 0; i < 50; ++i) {
    Make(TestTcpOptions(3));
    ExpectExchange(0, 1);
    ranks_[1].Send(2, "on its way");
    ranks_.clear();
  }
  EXPECT_EQ(OpenDescriptors(), before);
}

TEST_F(TcpTransportTest, AllDescriptorsAreCloseOnExec) {
  const std::set<int> before = OpenDescriptors();
  Make(TestTcpOptions(2));
  ExpectExchange(0, 1);
  for (int fd : OpenDescriptors()) {
    if (before.count(fd) != 0) continue;
    EXPECT_TRUE(::fcntl(fd, F_GETFD) & FD_CLOEXEC) << fd;
  }
}

TEST_F(TcpTransportTest, UsesNoPacingOnOneHostUnlessToldOtherwise) {
  for (const std::string asked : {"", "cubic"}) {
    const std::set<int> before = OpenDescriptors();
    std::vector<TcpOptions> options = TestTcpOptions(2);
    for (TcpOptions& each : options) each.congestion = asked;
    Make(std::move(options));
    ExpectExchange(0, 1);
    int connections = 0;
    for (int fd : OpenDescriptors()) {
      char name[16] = {};
      socklen_t length = sizeof(name);
      if (before.count(fd) != 0 || !PeerAddress(fd).ok()) continue;
      ++connections;
      EXPECT_EQ(::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length), 0);
      // An algorithm that this system does not allow leaves its default.
      if (asked.empty()) {
        EXPECT_STREQ(name, "reno");
      }
      int no_delay = 0;
      length = sizeof(no_delay);
      EXPECT_EQ(::getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &no_delay, &length), 0);
      EXPECT_EQ(no_delay, 1);
    }
    EXPECT_EQ(connections, 2);
    EXPECT_THAT(ranks_[0].endpoint().Describe(), HasSubstr(asked.empty() ? "congestion control = reno to 1 peers"
                                                                         : "congestion control = cubic (asked"));
    ranks_.clear();
  }
}

TEST_F(TcpTransportTest, ARankOfAnotherJobIsRefusedByName) {
  std::vector<TcpOptions> options = TestTcpOptions(2);
  for (TcpPeer& peer : options[0].ranks) peer.identity.job_id = "another job";
  Make(std::move(options));
  EXPECT_THAT(WhyLost(), AllOf(StartsWith("rank 0 at "), HasSubstr("rank 1"), HasSubstr(addresses_[1]),
                               HasSubstr("\"another job\""), HasSubstr("\"job\"")));
  EXPECT_THAT(ranks_[1].lost(), IsEmpty());
}

TEST_F(TcpTransportTest, ReachingOneselfIsAnErrorThatNamesTheAddress) {
  std::vector<TcpOptions> options = TestTcpOptions(2);
  options[0].ranks[1].address = options[0].ranks[0].address;
  Make(std::move(options));
  EXPECT_THAT(WhyLost(), AllOf(HasSubstr("cannot connect to rank 1"), HasSubstr(addresses_[0]), HasSubstr("itself")));
}

TEST_F(TcpTransportTest, ReachingAnotherRankIsAnErrorThatNamesBoth) {
  std::vector<TcpOptions> options = TestTcpOptions(3);
  options[0].ranks[1].address = options[0].ranks[2].address;
  Make(std::move(options));
  EXPECT_THAT(WhyLost(), AllOf(HasSubstr("cannot connect to rank 1"), HasSubstr("belongs to rank 2")));
}

TEST_F(TcpTransportTest, ARefusedConnectionIsToldAtOnce) {
  std::vector<TcpOptions> options = TestTcpOptions(2);
  options.pop_back();
  Make(std::move(options));
  const absl::Time start = absl::Now();
  EXPECT_THAT(WhyLost(), AllOf(HasSubstr("rank 0 at "), HasSubstr("cannot connect to rank 1 (host1, pid 101)"),
                               HasSubstr("refused (nobody listening)")));
  EXPECT_LT(absl::Now() - start, kTestPatience / 2);
}

TEST_F(TcpTransportTest, AListenerThatDoesNotAnswerIsToldAfterTheTimeOut) {
  std::vector<TcpOptions> options = TestTcpOptions(2);
  const Fd silent = std::move(options[1].listener);
  options.pop_back();
  options[0].connect_timeout = absl::Milliseconds(50);
  Make(std::move(options));
  ranks_[0].Expect(1);
  EXPECT_TRUE(PollAndSleepUntil(ranks_[0], [&] { return !ranks_[0].lost().empty(); }));
  const absl::Status& why = ranks_[0].lost()[0].second;
  EXPECT_EQ(why.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(why.message()), AllOf(HasSubstr("rank 1"), HasSubstr("no hello came"), HasSubstr("50ms")));
}

TEST_F(TcpTransportTest, AServerOfAnotherKindIsNamedAsSuch) {
  std::vector<TcpOptions> options = TestTcpOptions(2);
  const Fd listener = std::move(options[1].listener);
  options.pop_back();
  Make(std::move(options));
  ranks_[0].Expect(1);
  Fd connection;
  ASSERT_TRUE(PollUntil([&] {
    absl::StatusOr<Fd> accepted = Accept(listener.get());
    if (accepted.ok()) connection = *std::move(accepted);
    return connection.valid();
  }));
  ASSERT_EQ(::send(connection.get(), "SSH-2.0-OpenSSH", 15, MSG_NOSIGNAL), 15);
  ASSERT_TRUE(PollUntil([&] { return !ranks_[0].lost().empty(); }));
  EXPECT_THAT(std::string(ranks_[0].lost()[0].second.message()),
              HasSubstr("not a Tutti peer: starts with \"SSH-2.0-\""));
}

TEST_F(TcpTransportTest, StrangersAreDroppedAndDoNoHarm) {
  Make(TestTcpOptions(2));
  EXPECT_EQ(Tell(1, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"), "");
  EXPECT_EQ(Tell(1, std::string("\x16\x03\x01\x02\x00", 5)), "");
  EXPECT_EQ(Tell(1, EncodeFrame("no hello")), "");
  EXPECT_EQ(Tell(1, EncodeFrame(std::string(kHelloBytesMax + 1, 'x'))), "");
  ExpectExchange(0, 1);
  EXPECT_EQ(Tell(1, "late"), "");
  ExpectExchange(0, 1);
}

TEST_F(TcpTransportTest, CallersThatSayNothingAreBoundedInNumber) {
  Make(TestTcpOptions(2));
  const SocketAddress address = SocketAddress::Parse(addresses_[1]).value();
  const size_t before = OpenDescriptors().size();
  std::vector<Fd> callers;
  for (int i = 0; i < 200; ++i) {
    callers.push_back(ConnectAny({address}, absl::Now() + kTestPatience).value());
    for (int j = 0; j < 300; ++j) ranks_[1].Poll();
  }
  EXPECT_LT(OpenDescriptors().size(), before + 200 + 100);
  ExpectExchange(0, 1);
}

TEST_F(TcpTransportTest, ASilentCallerIsDroppedAfterTheTimeOut) {
  std::vector<TcpOptions> options = TestTcpOptions(2);
  options[1].connect_timeout = absl::Milliseconds(30);
  Make(std::move(options));
  EXPECT_EQ(Tell(1, ""), "");
}

TEST_F(TcpTransportTest, CallersThatMustNotCallAreToldWhy) {
  Make(TestTcpOptions(3));
  ExpectExchange(0, 1);
  auto answer_to = [&](const Hello& hello) {
    const std::string answer = Tell(1, EncodeFrame(Encode(hello)));
    if (answer.size() < 8) return std::string("no answer");
    return DecodeHello(absl::string_view(answer).substr(8)).value().refusal;
  };
  EXPECT_THAT(answer_to(DataHello(TestIdentity(0, 3))), HasSubstr("rank 0 is already connected to rank 1"));
  EXPECT_THAT(answer_to(DataHello(TestIdentity(1, 3))), HasSubstr("a second process with this rank"));
  EXPECT_THAT(answer_to(DataHello(TestIdentity(2, 3))), HasSubstr("expects no connection from rank 2"));
  EXPECT_THAT(answer_to(DataHello(TestIdentity(0, 3), kChannelCount)), HasSubstr("channel 2"));
  EXPECT_THAT(answer_to(DataHello(TestIdentity(0, 4))), HasSubstr("size"));
  Hello store = DataHello(TestIdentity(0, 3), 1);
  store.purpose = "store";
  EXPECT_THAT(answer_to(store), HasSubstr("data port of rank 1"));
  ExpectExchange(0, 1);
}

TEST_F(TcpTransportTest, BytesThatAreNoMessageLoseThePeer) {
  Make(TestTcpOptions(2));
  const SocketAddress address = SocketAddress::Parse(addresses_[1]).value();
  const Fd socket = ConnectAny({address}, absl::Now() + kTestPatience).value();
  const std::string bytes = EncodeFrame(Encode(DataHello(TestIdentity(0, 2)))) + std::string(100, 'x');
  ASSERT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  ranks_[1].Expect(0);
  ASSERT_TRUE(PollUntil([&] { return !ranks_[1].lost().empty(); }));
  EXPECT_THAT(std::string(ranks_[1].lost()[0].second.message()),
              AllOf(HasSubstr("rank 1 lost rank 0 (host0, pid 100) at "), HasSubstr("no Tutti message")));
}

TEST_F(TcpTransportTest, ACollectiveHasAsManySocketsToAPeerAsAskedForAndPointToPointOne) {
  std::vector<TcpOptions> options = TestTcpOptions(2);
  for (TcpOptions& each : options) each.sockets_per_peer = 4;
  Make(std::move(options));
  EXPECT_EQ(ranks_[0].endpoint().striping().sockets, 4);
  EXPECT_EQ(ranks_[0].endpoint().striping().from_bytes, kStripedBytes);
  const size_t before = OpenDescriptors().size();
  ExpectExchange(0, 1);
  ASSERT_TRUE(PollUntil([&] { return OpenDescriptors().size() == before + 2 * 4; }));
  ranks_[0].Send(1, "ping", Channel::kPointToPoint);
  ranks_[1].Expect(0, 1, Channel::kPointToPoint);
  ASSERT_TRUE(PollUntil([&] { return ranks_[1].received().size() == 2; }));
  EXPECT_EQ(OpenDescriptors().size(), before + 2 * 4 + 2);
}

TEST_F(TcpTransportTest, SocketsPerPeerBeyondTheLimitAreRefused) {
  std::vector<TcpOptions> options = TestTcpOptions(2);
  options[0].sockets_per_peer = kSocketsPerPeerMax + 1;
  const absl::Status status = MakeTcpEndpoint(std::move(options[0])).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("17 sockets per peer"));
}

TEST_F(TcpTransportTest, MessagesMayArriveByteByByte) {
  Make(TestTcpOptions(2));
  const SocketAddress address = SocketAddress::Parse(addresses_[1]).value();
  const Fd socket = ConnectAny({address}, absl::Now() + kTestPatience).value();
  const MessageTag tag = TestTag(0, 1, Channel::kCollective, 0);
  std::string bytes = EncodeFrame(Encode(DataHello(TestIdentity(0, 2))));
  bytes += "TUM2";
  auto append = [&](uint64_t value, int count) {
    for (int i = 0; i < count; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  };
  append(tag.sequence, 4);
  append(tag.segment, 4);
  append(tag.ordinal, 4);
  append(tag.fingerprint, 8);
  append(3, 8);
  append(tag.block_bytes, 8);
  bytes += "abc";
  ranks_[1].Expect(0);
  for (char byte : bytes) {
    ASSERT_EQ(::send(socket.get(), &byte, 1, MSG_NOSIGNAL), 1);
    for (int i = 0; i < 3; ++i) ranks_[1].Poll();
  }
  ASSERT_TRUE(PollUntil([&] { return ranks_[1].received().size() == 1; }));
  EXPECT_EQ(ranks_[1].received()[0].payload, "abc");
}

TEST_F(TcpTransportTest, AResetConnectionNamesThePeerAndTheError) {
  Make(TestTcpOptions(2));
  const SocketAddress address = SocketAddress::Parse(addresses_[1]).value();
  Fd socket = ConnectAny({address}, absl::Now() + kTestPatience).value();
  const std::string hello = EncodeFrame(Encode(DataHello(TestIdentity(0, 2))));
  ASSERT_EQ(::send(socket.get(), hello.data(), hello.size(), MSG_NOSIGNAL), static_cast<ssize_t>(hello.size()));
  ranks_[1].Send(0, "makes sure that the connection is up");
  ASSERT_TRUE(PollUntil([&] { return ranks_[1].unsent() == 0; }));
  ranks_[1].Expect(0);
  socket.Close();  // with unread bytes: a reset
  ASSERT_TRUE(PollUntil([&] { return !ranks_[1].lost().empty(); }));
  EXPECT_THAT(std::string(ranks_[1].lost()[0].second.message()),
              AllOf(HasSubstr("rank 0 (host0, pid 100)"), HasSubstr("Connection reset by peer"),
                    HasSubstr("1 messages expected")));
}

TEST_F(TcpTransportTest, ManyPeersAreServedThroughTheirEdges) {
  constexpr int kSize = 12;
  Make(TestTcpOptions(kSize));
  for (int round = 0; round < 20; ++round) {
    for (int rank = 0; rank < kSize; ++rank) {
      for (int peer = 0; peer < kSize; ++peer) {
        if (peer == rank) continue;
        ranks_[rank].Send(peer, TestPayload(round * 1000, round));
        ranks_[rank].Expect(peer);
      }
    }
    ASSERT_TRUE(PollUntil([&] {
      return std::all_of(ranks_.begin(), ranks_.end(),
                         [&](const TestRank& rank) { return rank.received().size() == (round + 1u) * (kSize - 1); });
    })) << "round "
        << round;
  }
}

// Lowers the limit of open descriptors to what is open now, and more.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(int more) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int lowest_free = ::fcntl(0, F_DUPFD, 0);
    ::close(lowest_free);
    rlimit limit = before_;
    limit.rlim_cur = lowest_free + more;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_;
};

TEST_F(TcpTransportTest, LackOfDescriptorsForACallSaysSo) {
  Make(TestTcpOptions(2));
  const DescriptorLimit none_left(0);
  EXPECT_THAT(WhyLost(), AllOf(HasSubstr("cannot connect to rank 1"), HasSubstr("ulimit -n")));
}

TEST_F(TcpTransportTest, LackOfDescriptorsForACallerMakesItWaitWithoutSpinning) {
  Make(TestTcpOptions(2));
  ranks_[0].Expect(1);
  ranks_[1].Send(0, "x");
  {
    const DescriptorLimit one_left(1);
    ranks_[0].Poll();
    for (int i = 0; i < 1000; ++i) ranks_[1].Poll();
    const absl::Time start = absl::Now();
    ranks_[1].endpoint().Sleep(start + kTestPatience);
    EXPECT_GE(absl::Now() - start, absl::Milliseconds(20)) << "the listener ended Sleep again and again";
    EXPECT_THAT(ranks_[1].lost(), IsEmpty());
  }
  EXPECT_TRUE(PollUntil([&] { return ranks_[0].received().size() == 1; }));
}

}  // namespace
}  // namespace tutti
