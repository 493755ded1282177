#include "src/rendezvous/membership.h"

#include <poll.h>
#include <sys/socket.h>

#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/frame_connection.h"
#include "src/base/frame_parser.h"
#include "src/rendezvous/come_again.h"
#include "src/rendezvous/membership_client.h"
#include "src/rendezvous/membership_server.h"
#include "src/store/stores.h"
#include "tests/rendezvous/fake_job.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(30);  // for what is certain to come
constexpr absl::Duration kPrompt = absl::Seconds(5);     // for verdicts; far below any deadline here

void Begin(Journal& journal, uint32_t sequence, const OperationDescriptor& descriptor) {
  journal.Begin(sequence, descriptor, Fingerprint(descriptor));
}

OperationDescriptor AllReduceOf(uint64_t count) {
  return {.collective = Collective::kAllReduce,
          .op = ReduceOp::kSum,
          .type = DataType::kFloat32,
          .algorithm = Algorithm::kGather,
          .count = count};
}

// A value that arrives once.
template <typename T>
class Mailbox {
 public:
  void Put(T value) {
    absl::MutexLock lock(&mutex_);
    EXPECT_FALSE(value_.has_value()) << "called twice";
    value_ = std::move(value);
  }
  std::optional<T> Get(absl::Duration timeout) {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(
                                +[](std::optional<T>* value) { return value->has_value(); }, &value_),
                            timeout);
    return value_;
  }

 private:
  absl::Mutex mutex_;
  std::optional<T> value_;
};

class MembershipTest : public testing::Test {
 protected:
  struct Rank {
    Journal journal;
    Mailbox<absl::Status> verdict;
    absl::StatusOr<std::unique_ptr<Membership>> membership = absl::UnknownError("not joined");

    Membership& get() { return **membership; }
    absl::Status Verdict() { return verdict.Get(kPrompt).value_or(absl::UnknownError("no verdict")); }
  };

  MembershipTest() {
    for (int i = 0; i < 3; ++i) loops_.push_back(*EventLoop::Start(absl::StrCat("test-", i)));
  }
  ~MembershipTest() override {
    // The highest rank first: then nobody waits for others.
    while (!ranks_.empty()) ranks_.pop_back();
  }

  static SocketAddress Loopback() { return *SocketAddress::Parse("127.0.0.1:0"); }
  EventLoop& LoopOf(int rank) { return *loops_[static_cast<size_t>(rank) % loops_.size()]; }

  MembershipOptions OptionsOf(Identity self, absl::Duration timeout = kPatience) {
    MembershipOptions options;
    options.data_address = absl::StrCat("127.0.0.1:", 1000 + self.rank);
    options.cpus.set(static_cast<size_t>(self.rank));
    options.self = std::move(self);
    options.listen = Loopback();
    options.deadline = absl::Now() + timeout;
    options.heartbeat_interval = absl::Milliseconds(20);
    return options;
  }

  // Ranks that join side by side; returns when each of them has joined or failed. In the order of `identities`.
  std::vector<Rank*> Join(const std::vector<Identity>& identities, absl::Duration timeout = kPatience) {
    std::vector<Rank*> joined;
    std::vector<std::thread> threads;
    for (const Identity& identity : identities) {
      joined.push_back(&ranks_.emplace_back());
      threads.emplace_back([this, rank = joined.back(), options = OptionsOf(identity, timeout)] {
        rank->membership = Membership::Join(LoopOf(options.self.rank), *store_, options, rank->journal,
                                            [rank](absl::Status verdict) { rank->verdict.Put(std::move(verdict)); });
      });
    }
    for (std::thread& thread : threads) thread.join();
    return joined;
  }

  std::vector<Rank*> JoinAll(int world_size) {
    std::vector<Identity> identities;
    for (int rank = 0; rank < world_size; ++rank) identities.push_back(FakeIdentity(rank, world_size));
    std::vector<Rank*> joined = Join(identities);
    for (Rank* rank : joined) EXPECT_TRUE(rank->membership.ok()) << rank->membership.status();
    return joined;
  }

  SocketAddress ServerAddress() {
    const absl::StatusOr<std::string> text = store_->Get("membership/0", absl::Now() + kPatience);
    EXPECT_TRUE(text.ok()) << text.status();
    return *SocketAddress::Parse(*text);
  }

  Fd Connect() {
    absl::StatusOr<Fd> socket = ConnectAny({ServerAddress()}, absl::Now() + kPatience);
    EXPECT_TRUE(socket.ok()) << socket.status();
    return *std::move(socket);
  }

  std::deque<Rank> ranks_;
  std::unique_ptr<Store> store_ = MakeMemoryStore();
  std::vector<std::unique_ptr<EventLoop>> loops_;  // destroyed first, and so after the ranks only
};

// A rank that can die: it never says goodbye.
class Mortal {
 public:
  Mortal(EventLoop& loop, Fd socket, const MembershipOptions& options) : loop_(loop) {
    loop_.RunAndWait([&] {
      client_ = std::make_unique<MembershipClient>(
          loop_, std::move(socket), options, journal_,
          MembershipClient::Callbacks{
              .joined = [this](absl::StatusOr<std::vector<Member>> members) { joined_.Put(members.status()); },
              .verdict = [this](absl::Status verdict) { verdict_.Put(std::move(verdict)); },
          });
    });
  }
  ~Mortal() { Die(); }

  void Die() {
    loop_.RunAndWait([&] { client_.reset(); });
  }
  absl::Status Joined() { return joined_.Get(kPatience).value_or(absl::UnknownError("no answer")); }
  absl::Status Verdict() { return verdict_.Get(kPrompt).value_or(absl::UnknownError("no verdict")); }
  Journal& journal() { return journal_; }

 private:
  EventLoop& loop_;
  Journal journal_;
  Mailbox<absl::Status> joined_, verdict_;
  std::unique_ptr<MembershipClient> client_;
};

// A peer that speaks as the test wants.
class Raw {
 public:
  explicit Raw(Fd socket) : socket_(std::move(socket)) {}

  void SendBytes(const std::string& bytes) {
    EXPECT_EQ(::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  void SendFrame(const std::string& payload) { SendBytes(EncodeFrame(payload)); }
  // None at the end of the connection.
  std::optional<std::string> ReadFrame() {
    while (true) {
      absl::StatusOr<std::optional<std::string>> frame = parser_.Next();
      EXPECT_TRUE(frame.ok()) << frame.status();
      if (!frame.ok() || frame->has_value()) return *frame;
      char chunk[4096];
      pollfd poll_for{socket_.get(), POLLIN, 0};
      if (::poll(&poll_for, 1, static_cast<int>(absl::ToInt64Milliseconds(kPatience))) <= 0) {
        ADD_FAILURE() << "nothing comes";
        return std::nullopt;
      }
      const ssize_t count = ::recv(socket_.get(), chunk, sizeof(chunk), 0);
      if (count <= 0) return std::nullopt;  // also a reset
      parser_.Append({chunk, static_cast<size_t>(count)});
    }
  }
  std::string ReadRefusal() {
    const absl::StatusOr<Hello> hello = DecodeHello(ReadFrame().value_or(""));
    EXPECT_TRUE(hello.ok()) << hello.status();
    return hello.ok() ? hello->refusal : "";
  }
  // The type of the next message; kHeartbeats are passed over.
  std::optional<MembershipMessage> Read(const Identity& self) {
    while (const std::optional<std::string> frame = ReadFrame()) {
      const absl::StatusOr<MembershipMessage> message = DecodeMembershipMessage(*frame, self);
      EXPECT_TRUE(message.ok()) << message.status();
      if (!message.ok()) return std::nullopt;
      if (message->type != MembershipMessage::Type::kHeartbeat) return *message;
    }
    return std::nullopt;
  }

 private:
  Fd socket_;
  FrameParser parser_{size_t{1} << 20};
};

std::string Text(const absl::Status& status) { return std::string(status.message()); }

TEST_F(MembershipTest, TellsEachRankAboutAll) {
  for (Rank* rank : JoinAll(4)) {
    const std::vector<Member>& members = rank->get().members();
    ASSERT_EQ(members.size(), 4u);
    for (int i = 0; i < 4; ++i) {
      const Member& member = members[static_cast<size_t>(i)];
      EXPECT_EQ(Describe(member.identity), Describe(FakeIdentity(i, 4)));
      EXPECT_EQ(member.identity.host_id, absl::StrCat("id-", i));
      EXPECT_EQ(member.identity.world_size, 4);
      EXPECT_EQ(member.data_address, absl::StrCat("127.0.0.1:", 1000 + i));
      EXPECT_EQ(member.cpus, CpuSet().set(static_cast<size_t>(i)));
    }
  }
}

TEST_F(MembershipTest, TakesOneRankAlone) { EXPECT_EQ(JoinAll(1)[0]->get().members().size(), 1u); }

TEST_F(MembershipTest, TakesManyRanks) {
  for (Rank* rank : JoinAll(64)) EXPECT_EQ(rank->get().members().size(), 64u);
}

TEST_F(MembershipTest, RefusesARankTakenTwiceAndGoesOnWithTheOthers) {
  std::vector<Rank*> joined;
  std::thread others([&] { joined = Join({FakeIdentity(0, 3), FakeIdentity(2, 3)}); });
  const Identity self = FakeIdentity(1, 3);
  Raw holder(Connect());
  holder.SendFrame(EncodeMembershipHello(self));
  EXPECT_EQ(holder.ReadRefusal(), "");

  Identity twin = self;
  twin.hostname = "elsewhere";
  const absl::Status refused = Mortal(LoopOf(0), Connect(), OptionsOf(twin)).Joined();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Text(refused), AllOf(HasSubstr("refused by rank 0 (host-0, pid 100)"),
                                   HasSubstr("rank 1 is already taken by host-1, pid 101")));
  const std::optional<MembershipMessage> notice = holder.Read(self);
  ASSERT_TRUE(notice.has_value());
  EXPECT_EQ(notice->type, MembershipMessage::Type::kNotice);
  EXPECT_THAT(notice->text, HasSubstr("rank 1 (elsewhere, pid 101)"));

  holder.SendFrame(Encode({.type = MembershipMessage::Type::kJoin, .text = "a", .timeout = kPatience}));
  others.join();
  for (Rank* rank : joined) EXPECT_TRUE(rank->membership.ok()) << rank->membership.status();
  holder.SendFrame(Encode({.type = MembershipMessage::Type::kLeave}));
}

TEST_F(MembershipTest, RefusesWhoComesLate) {
  const std::vector<Rank*> ranks = JoinAll(2);
  const absl::Status taken = Mortal(LoopOf(0), Connect(), OptionsOf(FakeIdentity(1, 2))).Joined();
  EXPECT_THAT(Text(taken), HasSubstr("rank 1 is already taken by host-1, pid 101"));
  EXPECT_FALSE(IsComeAgain(taken));
  ranks[1]->get().ReportAbort(absl::InternalError("enough"));
  EXPECT_TRUE(absl::IsAborted(ranks[0]->Verdict()));
  const absl::Status failed = Mortal(LoopOf(0), Connect(), OptionsOf(FakeIdentity(1, 2))).Joined();
  EXPECT_THAT(Text(failed), AllOf(HasSubstr("has failed already"), HasSubstr("enough")));
  EXPECT_TRUE(IsComeAgain(failed));
}

TEST_F(MembershipTest, TellsARankThatHasLeftToComeAgain) {
  const std::vector<Rank*> ranks = JoinAll(3);
  ranks[1]->membership = absl::UnknownError("left");
  const absl::Status refused = Mortal(LoopOf(0), Connect(), OptionsOf(FakeIdentity(1, 3))).Joined();
  EXPECT_TRUE(IsComeAgain(refused)) << refused;
  EXPECT_THAT(Text(refused), AllOf(HasSubstr("rank 1 (host-1, pid 101) has left this group"), HasSubstr("rank 0")));
  const absl::Status twin = Mortal(LoopOf(0), Connect(), OptionsOf(FakeIdentity(2, 3))).Joined();
  EXPECT_FALSE(IsComeAgain(twin)) << twin;
  EXPECT_THAT(Text(twin), HasSubstr("rank 2 is already taken"));
}

TEST_F(MembershipTest, LeavesWordInTheStoreWhenItHasEnded) {
  const std::vector<Rank*> ranks = JoinAll(2);
  for (const size_t rank : {1u, 0u}) ranks[rank]->membership = absl::UnknownError("left");
  const absl::Status status = Join({FakeIdentity(1, 2)})[0]->membership.status();
  EXPECT_TRUE(IsComeAgain(status)) << status;
}

TEST_F(MembershipTest, RefusesAnotherWorldSizeAndNamesItToThoseWhoWait) {
  const std::vector<Rank*> ranks = Join({FakeIdentity(0, 2), FakeIdentity(1, 4)}, /*timeout=*/absl::Milliseconds(500));
  EXPECT_THAT(Text(ranks[1]->membership.status()),
              AllOf(HasSubstr("refused by rank 0"), HasSubstr("world size"), HasSubstr("2"), HasSubstr("4")));
  EXPECT_EQ(ranks[0]->membership.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Text(ranks[0]->membership.status()),
              AllOf(HasSubstr("have rank 0 (host host-0); missing rank 1"),
                    HasSubstr("refused 1 process: rank 1 (host-1"), HasSubstr("world size")));
}

TEST_F(MembershipTest, NamesTheMissingToAllWhoAreThere) {
  const std::vector<Rank*> ranks =
      Join({FakeIdentity(0, 4), FakeIdentity(1, 4), FakeIdentity(3, 4)}, /*timeout=*/absl::Milliseconds(500));
  for (Rank* rank : ranks) {
    EXPECT_EQ(rank->membership.status().code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(Text(rank->membership.status()),
                HasSubstr("have ranks 0, 1, 3 (hosts host-0, host-1, host-3); missing rank 2"));
  }
}

TEST_F(MembershipTest, AsksForRankZeroWhenItIsMissing) {
  const std::vector<Rank*> ranks = Join({FakeIdentity(1, 2)}, /*timeout=*/absl::Milliseconds(100));
  EXPECT_EQ(ranks[0]->membership.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Text(ranks[0]->membership.status()), AllOf(HasSubstr("rank 0"), HasSubstr("is it started?")));
}

TEST_F(MembershipTest, TellsTheOthersWhenRankZeroCannotServe) {
  const absl::StatusOr<Fd> occupant = Listen(Loopback());
  ASSERT_TRUE(occupant.ok());
  const uint16_t port = LocalAddress(occupant->get())->port();
  MembershipOptions options = OptionsOf(FakeIdentity(0, 2));
  options.ports = {port, port};
  Journal journal;
  absl::StatusOr<std::unique_ptr<Membership>> rank_0 = absl::UnknownError("");
  std::thread thread([&] { rank_0 = Membership::Join(LoopOf(0), *store_, options, journal, [](absl::Status) {}); });
  const std::vector<Rank*> ranks = Join({FakeIdentity(1, 2)});
  thread.join();
  for (const absl::Status& status : {rank_0.status(), ranks[0]->membership.status()}) {
    EXPECT_THAT(Text(status), AllOf(HasSubstr("rank 0 (host-0, pid 100) cannot listen"), HasSubstr(absl::StrCat(port)),
                                    HasSubstr("in use")));
  }
}

TEST_F(MembershipTest, FailsForAllWhenARankDiesBeforeAllHaveJoined) {
  std::vector<Rank*> joined;
  std::thread others([&] { joined = Join({FakeIdentity(0, 3), FakeIdentity(1, 3)}); });
  {
    Raw victim(Connect());
    victim.SendFrame(EncodeMembershipHello(FakeIdentity(2, 3)));
    EXPECT_EQ(victim.ReadRefusal(), "");
  }
  others.join();
  for (Rank* rank : joined) {
    // A rank that comes only then is refused, or finds the reason in the store.
    EXPECT_THAT(Text(rank->membership.status()),
                HasSubstr("rank 2 (host-2, pid 102) died before all ranks had joined"));
  }
}

TEST_F(MembershipTest, DropsStrangersAndGoesOn) {
  std::vector<Rank*> joined;
  std::thread others([&] { joined = Join({FakeIdentity(0, 2)}); });
  Raw silent(Connect());
  std::vector<std::string> greetings = {"GET / HTTP/1.1\r\nHost: tutti\r\n\r\n", std::string(5000, '\xa5'),
                                        EncodeFrame("not a hello"), EncodeFrame(std::string(5000, ' '))};
  Hello store_hello;
  store_hello.purpose = "store";
  store_hello.from = FakeIdentity(1, 2);
  greetings.push_back(EncodeFrame(Encode(store_hello)));
  for (const std::string& greeting : greetings) {
    Raw stranger(Connect());
    stranger.SendBytes(greeting);
    EXPECT_EQ(stranger.ReadFrame(), std::nullopt) << greeting.substr(0, 20);
  }
  std::vector<Rank*> rank_1 = Join({FakeIdentity(1, 2)});
  others.join();
  EXPECT_TRUE(joined[0]->membership.ok()) << joined[0]->membership.status();
  EXPECT_TRUE(rank_1[0]->membership.ok()) << rank_1[0]->membership.status();
}

// A job whose last rank may die.
class MortalJob : public MembershipTest {
 protected:
  void Start(int world_size) {
    std::vector<Identity> identities;
    for (int rank = 0; rank + 1 < world_size; ++rank) identities.push_back(FakeIdentity(rank, world_size));
    std::thread others([&] { others_ = Join(identities); });
    victim_.emplace(LoopOf(0), Connect(), OptionsOf(FakeIdentity(world_size - 1, world_size)));
    others.join();
    EXPECT_EQ(victim_->Joined(), absl::OkStatus());
  }

  std::vector<Rank*> others_;
  std::optional<Mortal> victim_;
};

TEST_F(MortalJob, TellsAllWhoHasDied) {
  Start(4);
  Begin(victim_->journal(), 1, AllReduceOf(8));
  const absl::Time start = absl::Now();
  victim_->Die();
  for (Rank* rank : others_) {
    const absl::Status verdict = rank->Verdict();
    EXPECT_EQ(verdict.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(Text(verdict), HasSubstr("rank 3 (host-3, pid 103) died: its connection ended without a goodbye"));
    EXPECT_EQ(verdict, others_[0]->verdict.Get(absl::ZeroDuration()));
  }
  EXPECT_LT(absl::Now() - start, absl::Seconds(2));
}

TEST_F(MortalJob, BlamesTheDeadRankWhenOthersLoseIt) {
  Start(3);
  others_[0]->get().ReportPeerLost(2, absl::UnavailableError("connection reset"));
  victim_->Die();
  for (Rank* rank : others_) EXPECT_THAT(Text(rank->Verdict()), HasSubstr("rank 2 (host-2, pid 102) died"));
}

TEST_F(MortalJob, ToldByBytesThatAreNoMessage) {
  std::vector<Rank*> joined;
  const Identity self = FakeIdentity(1, 2);
  std::thread other([&] { joined = Join({FakeIdentity(0, 2)}); });
  Raw rank_1(Connect());
  rank_1.SendFrame(EncodeMembershipHello(self));
  rank_1.SendFrame(Encode({.type = MembershipMessage::Type::kJoin, .text = "a", .timeout = kPatience}));
  other.join();
  rank_1.SendFrame(R"({"type":"peer-lost","peer":2})");
  EXPECT_THAT(Text(joined[0]->Verdict()),
              AllOf(HasSubstr("rank 1 (host-1, pid 101)"), HasSubstr("not a membership message: peer")));
}

TEST_F(MembershipTest, TellsAllWhenRankZeroHasDied) {
  const MembershipOptions options = OptionsOf(FakeIdentity(0, 3));
  absl::StatusOr<Fd> listener = Listen(options.listen);
  ASSERT_TRUE(listener.ok());
  ASSERT_TRUE(store_->Set("membership/0", LocalAddress(listener->get())->ToString()).ok());
  std::unique_ptr<MembershipServer> server;
  LoopOf(0).RunAndWait([&] { server = std::make_unique<MembershipServer>(LoopOf(0), *std::move(listener), options); });
  Mortal rank_0(LoopOf(0), Connect(), options);
  const std::vector<Rank*> ranks = Join({FakeIdentity(1, 3), FakeIdentity(2, 3)});
  for (Rank* rank : ranks) ASSERT_TRUE(rank->membership.ok()) << rank->membership.status();
  LoopOf(0).RunAndWait([&] { server.reset(); });
  for (Rank* rank : ranks) {
    const absl::Status verdict = rank->Verdict();
    EXPECT_EQ(verdict.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(Text(verdict), HasSubstr("rank 0 (host-0, pid 100) died"));
  }
}

TEST_F(MembershipTest, LetsARankLeaveAndTellsWhoNeedsIt) {
  const std::vector<Rank*> ranks = JoinAll(3);
  ranks[2]->membership = absl::UnknownError("destroyed");
  ranks[1]->get().ReportPeerLost(2, absl::UnavailableError("connection closed during barrier"));
  for (Rank* rank : {ranks[0], ranks[1]}) {
    const absl::Status verdict = rank->Verdict();
    EXPECT_EQ(verdict.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(Text(verdict), AllOf(HasSubstr("rank 2 (host-2, pid 102) has left the group"),
                                     HasSubstr("connection closed during barrier")));
  }
}

TEST_F(MembershipTest, GoesOnAfterRankZeroHasLeft) {
  const std::vector<Rank*> ranks = JoinAll(3);
  const absl::Time start = absl::Now();
  ranks[0]->membership = absl::UnknownError("destroyed");
  EXPECT_LT(absl::Now() - start, kPrompt) << "it does not wait for long";
  ranks[1]->get().ReportPeerLost(0, absl::UnavailableError("connection closed"));
  EXPECT_THAT(Text(ranks[1]->Verdict()), HasSubstr("rank 0 (host-0, pid 100) has left the group"));
  ranks[2]->get().ReportTimeout(3, "barrier timed out");
  const absl::Status verdict = ranks[2]->Verdict();
  EXPECT_EQ(verdict.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Text(verdict), AllOf(HasSubstr("barrier timed out"), HasSubstr("rank 0 (host-0, pid 100) has left")));
}

TEST_F(MembershipTest, EndsWithoutAVerdict) {
  const std::vector<Rank*> ranks = JoinAll(4);
  std::vector<std::thread> threads;
  for (Rank* rank : ranks) threads.emplace_back([rank] { rank->membership = absl::UnknownError("destroyed"); });
  for (std::thread& thread : threads) thread.join();
  for (Rank* rank : ranks) EXPECT_EQ(rank->verdict.Get(absl::ZeroDuration()), std::nullopt);
}

TEST_F(MembershipTest, TellsAllAboutAMismatch) {
  const std::vector<Rank*> ranks = JoinAll(4);
  for (Rank* rank : ranks) Begin(rank->journal, 1, AllReduceOf(rank == ranks[0] ? 409600 : 409598));
  ranks[2]->get().ReportMismatch(1);
  for (Rank* rank : ranks) {
    const absl::Status verdict = rank->Verdict();
    EXPECT_EQ(verdict.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(Text(verdict), AllOf(HasSubstr("mismatch at operation 1: rank 0: all-reduce of 409600 float32"),
                                     HasSubstr("ranks 1-3: all-reduce of 409598 float32")));
  }
}

TEST_F(MembershipTest, FindsAMismatchThatNobodyReports) {
  const std::vector<Rank*> ranks = JoinAll(3);
  for (uint32_t sequence = 1; sequence <= 6; ++sequence) {
    for (Rank* rank : ranks) {
      Begin(rank->journal, sequence, AllReduceOf(rank == ranks[1] && sequence == 5 ? 7 : 8));
      rank->journal.End(sequence);
    }
  }
  for (Rank* rank : ranks) EXPECT_THAT(Text(rank->Verdict()), HasSubstr("rank 1: all-reduce of 7 float32"));
}

TEST_F(MembershipTest, NamesWhoIsLate) {
  const std::vector<Rank*> ranks = JoinAll(3);
  for (Rank* rank : ranks) {
    Begin(rank->journal, 1, AllReduceOf(8));
    rank->journal.End(1);
    if (rank != ranks[2]) Begin(rank->journal, 2, AllReduceOf(9));
  }
  ranks[0]->get().ReportTimeout(2, "all-reduce (sequence 2) timed out after 30 s");
  ranks[1]->get().ReportTimeout(2, "all-reduce (sequence 2) timed out after 30 s");
  for (Rank* rank : ranks) {
    const absl::Status verdict = rank->Verdict();
    EXPECT_EQ(verdict.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_EQ(verdict, ranks[0]->verdict.Get(absl::ZeroDuration()));
    EXPECT_THAT(Text(verdict), AllOf(HasSubstr("timed out after 30 s"),
                                     HasSubstr("rank 2 (host-2, pid 102) has not arrived: alive, last operation 1")));
  }
}

TEST_F(MembershipTest, PassesAnAbortOn) {
  const std::vector<Rank*> ranks = JoinAll(3);
  ranks[1]->get().ReportAbort(absl::InvalidArgumentError("loss is NaN"));
  for (Rank* rank : ranks) {
    const absl::Status verdict = rank->Verdict();
    EXPECT_EQ(verdict.code(), absl::StatusCode::kAborted);
    EXPECT_THAT(Text(verdict), AllOf(HasSubstr("aborted by rank 1 (host-1, pid 101)"), HasSubstr("loss is NaN")));
  }
}

TEST_F(MembershipTest, HasOneVerdictForAllWhenSeveralReport) {
  const std::vector<Rank*> ranks = JoinAll(8);
  for (Rank* rank : ranks) rank->get().ReportAbort(absl::InternalError("me too"));
  const absl::Status verdict = ranks[0]->Verdict();
  EXPECT_TRUE(absl::IsAborted(verdict)) << verdict;
  for (Rank* rank : ranks) EXPECT_EQ(rank->Verdict(), verdict);
}

}  // namespace
}  // namespace tutti
