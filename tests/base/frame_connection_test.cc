#include "src/base/frame_connection.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/event_loop.h"
#include "src/base/socket.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Pair {
  Fd a, b;
};

Pair TcpPair() {
  absl::StatusOr<Fd> listener = Listen(SocketAddress::Parse("127.0.0.1:0").value());
  const SocketAddress address = LocalAddress(listener->get()).value();
  Fd a = ConnectAny({address}, absl::Now() + absl::Seconds(5)).value();
  return {std::move(a), Accept(listener->get()).value()};
}

// The raw other end, with blocking calls bounded in time.
class Stranger {
 public:
  explicit Stranger(Fd fd) : fd_(std::move(fd)) {
    const int flags = ::fcntl(fd_.get(), F_GETFL);
    ::fcntl(fd_.get(), F_SETFL, flags & ~O_NONBLOCK);
    const timeval limit = {10, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  }
  void Write(absl::string_view bytes) {
    ASSERT_EQ(::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  std::string Read(size_t bytes) {
    std::string result(bytes, '\0');
    const ssize_t count = ::recv(fd_.get(), result.data(), bytes, MSG_WAITALL);
    result.resize(count > 0 ? static_cast<size_t>(count) : 0);
    return result;
  }
  bool AtEnd() {
    char byte;
    return ::recv(fd_.get(), &byte, 1, 0) == 0;
  }
  void CloseWrite() { ::shutdown(fd_.get(), SHUT_WR); }
  // As a host that crashes and comes back.
  void Reset() {
    const linger now = {1, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    fd_.Close();
  }
  void Close() { fd_.Close(); }

 private:
  Fd fd_;
};

// One connection on a loop, and what it reports.
class Side {
 public:
  Side(EventLoop& loop, Fd socket, FrameConnection::Limits limits = {}) : loop_(loop) {
    loop_.RunAndWait([&] {
      FrameConnection::Callbacks callbacks;
      callbacks.frame = [this](std::string payload) { Frame(std::move(payload)); };
      callbacks.closed = [this](absl::Status why) { Close(std::move(why)); };
      connection_ = std::make_unique<FrameConnection>(loop_, std::move(socket), limits, std::move(callbacks));
    });
  }
  ~Side() {
    loop_.RunAndWait([&] { connection_.reset(); });
  }

  void OnFrame(std::function<void(Side&, const std::string&)> action) {
    loop_.RunAndWait([&] { on_frame_ = std::move(action); });
  }
  void DestroyWhenClosed() {
    loop_.RunAndWait([&] { destroy_when_closed_ = true; });
  }

  // On the loop.
  FrameConnection& connection() { return *connection_; }
  void Destroy() { connection_.reset(); }

  void Send(const std::string& payload) {
    loop_.RunAndWait([&] { connection_->Send(payload); });
  }
  void CloseGracefully(absl::Duration grace = absl::Seconds(10)) {
    loop_.RunAndWait([&] { connection_->CloseGracefully(grace); });
  }
  std::vector<std::string> Frames(size_t count) {
    absl::MutexLock lock(&mutex_);
    auto there = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return frames_.size() >= count || why_.has_value(); };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&there), absl::Seconds(10)));
    return frames_;
  }
  absl::Status Closed() {
    absl::MutexLock lock(&mutex_);
    auto closed = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return why_.has_value(); };
    if (!mutex_.AwaitWithTimeout(absl::Condition(&closed), absl::Seconds(10))) return absl::UnknownError("not closed");
    return *why_;
  }
  bool has_closed() {
    absl::MutexLock lock(&mutex_);
    return why_.has_value();
  }
  // Once the loop has caught up.
  int closed_calls() {
    loop_.RunAndWait([] {});
    absl::MutexLock lock(&mutex_);
    return closed_calls_;
  }

 private:
  void Frame(std::string payload) {
    {
      absl::MutexLock lock(&mutex_);
      frames_.push_back(payload);
    }
    if (on_frame_) on_frame_(*this, payload);
  }
  void Close(absl::Status why) {
    if (destroy_when_closed_) connection_.reset();
    absl::MutexLock lock(&mutex_);
    ++closed_calls_;
    why_ = std::move(why);
  }

  EventLoop& loop_;
  std::unique_ptr<FrameConnection> connection_;
  std::function<void(Side&, const std::string&)> on_frame_;
  bool destroy_when_closed_ = false;
  absl::Mutex mutex_;
  std::vector<std::string> frames_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> why_ ABSL_GUARDED_BY(mutex_);
  int closed_calls_ ABSL_GUARDED_BY(mutex_) = 0;
};

class FrameConnectionTest : public ::testing::Test {
 protected:
  std::unique_ptr<EventLoop> loop_ = EventLoop::Start("tutti-test").value();
  Pair pair_ = TcpPair();
};

TEST_F(FrameConnectionTest, CarriesFramesInOrderBothWays) {
  Side a(*loop_, std::move(pair_.a)), b(*loop_, std::move(pair_.b));
  a.Send("one");
  a.Send("");
  a.Send("three");
  b.Send("back");
  EXPECT_THAT(b.Frames(3), ElementsAre("one", "", "three"));
  EXPECT_THAT(a.Frames(1), ElementsAre("back"));
}

TEST_F(FrameConnectionTest, CarriesMoreFramesThanOneWriteAndMoreBytesThanTheSocketHolds) {
  Side a(*loop_, std::move(pair_.a)), b(*loop_, std::move(pair_.b));
  std::vector<std::string> sent;
  for (int i = 0; i < 300; ++i)
    sent.push_back(std::string(static_cast<size_t>(i * i), static_cast<char>('a' + i % 26)));
  loop_->RunAndWait([&] {
    for (const std::string& payload : sent) a.connection().Send(payload);
  });
  EXPECT_EQ(b.Frames(sent.size()), sent);
}

TEST_F(FrameConnectionTest, KnowsItsPeer) {
  const std::string expected = PeerAddress(pair_.a.get())->ToString();
  Side a(*loop_, std::move(pair_.a));
  loop_->RunAndWait([&] { EXPECT_EQ(a.connection().peer().ToString(), expected); });
}

TEST_F(FrameConnectionTest, WritesWhatEncodeFrameSays) {
  Side a(*loop_, std::move(pair_.a));
  Stranger stranger(std::move(pair_.b));
  a.Send("payload");
  const std::string expected = EncodeFrame("payload");
  EXPECT_EQ(stranger.Read(expected.size()), expected);
  stranger.Write(EncodeFrame("answer"));
  EXPECT_THAT(a.Frames(1), ElementsAre("answer"));
}

TEST_F(FrameConnectionTest, AnOrderlyEndBetweenFramesIsOk) {
  Side a(*loop_, std::move(pair_.a));
  Stranger stranger(std::move(pair_.b));
  stranger.Write(EncodeFrame("last"));
  stranger.Close();
  EXPECT_TRUE(a.Closed().ok()) << a.Closed();
  EXPECT_THAT(a.Frames(1), ElementsAre("last"));
  EXPECT_EQ(a.closed_calls(), 1);
}

TEST_F(FrameConnectionTest, AnEndWithinAFrameIsAnError) {
  Side a(*loop_, std::move(pair_.a));
  Stranger stranger(std::move(pair_.b));
  stranger.Write(EncodeFrame("cut short").substr(0, 12));
  stranger.Close();
  EXPECT_EQ(a.Closed().code(), absl::StatusCode::kUnavailable) << a.Closed();
  EXPECT_THAT(a.Frames(0), IsEmpty());
}

TEST_F(FrameConnectionTest, AResetIsAnError) {
  Side a(*loop_, std::move(pair_.a));
  Stranger stranger(std::move(pair_.b));
  stranger.Write(EncodeFrame("last"));
  EXPECT_THAT(a.Frames(1), ElementsAre("last"));
  stranger.Reset();
  EXPECT_EQ(a.Closed().code(), absl::StatusCode::kUnavailable) << a.Closed();
}

TEST_F(FrameConnectionTest, AStrangerIsToldApartByItsFirstBytes) {
  Side a(*loop_, std::move(pair_.a));
  Stranger stranger(std::move(pair_.b));
  stranger.Write("GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(a.Closed(), absl::InvalidArgumentError("not a Tutti peer: starts with \"GET / HT\""));
}

TEST_F(FrameConnectionTest, TooLargeAFrameIsRefusedBeforeItArrives) {
  Side a(*loop_, std::move(pair_.a), {.frame_bytes = 100});
  Stranger stranger(std::move(pair_.b));
  stranger.Write(EncodeFrame(std::string(101, 'x')).substr(0, 8));
  EXPECT_EQ(a.Closed().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(a.Closed().message()), HasSubstr("101 bytes is too large: at most 100"));
}

TEST_F(FrameConnectionTest, LargerFramesAreTakenOnceTheLimitsAreRaised) {
  Side a(*loop_, std::move(pair_.a), {.frame_bytes = 8});
  a.OnFrame([](Side& side, const std::string& payload) {
    if (payload == "hello") side.connection().set_limits({.frame_bytes = 1000});
  });
  Stranger stranger(std::move(pair_.b));
  // In one write: the second frame is there when the first is handled.
  stranger.Write(EncodeFrame("hello") + EncodeFrame(std::string(1000, 'x')));
  EXPECT_THAT(a.Frames(2), ElementsAre("hello", std::string(1000, 'x')));
}

TEST_F(FrameConnectionTest, APeerThatTakesTooLittleIsGivenUp) {
  Side a(*loop_, std::move(pair_.a), {.backlog_bytes = size_t{1} << 20});
  bool inline_call = false;
  loop_->RunAndWait([&] {
    for (int i = 0; i < 40; ++i) a.connection().Send(std::string(100'000, 'x'));
    a.connection().Send("small enough, but after a gap");
    inline_call = a.has_closed();
  });
  EXPECT_FALSE(inline_call);
  EXPECT_EQ(a.Closed().code(), absl::StatusCode::kResourceExhausted) << a.Closed();
  EXPECT_EQ(a.closed_calls(), 1);
}

TEST_F(FrameConnectionTest, MayBeDestroyedInItsFrameCallback) {
  Side a(*loop_, std::move(pair_.a));
  a.OnFrame([](Side& side, const std::string&) { side.Destroy(); });
  Stranger stranger(std::move(pair_.b));
  stranger.Write(EncodeFrame("first") + EncodeFrame("second"));
  EXPECT_THAT(a.Frames(1), ElementsAre("first"));
  EXPECT_EQ(a.closed_calls(), 0);
  EXPECT_THAT(a.Frames(1), ElementsAre("first"));
}

TEST_F(FrameConnectionTest, MayBeDestroyedInItsClosedCallback) {
  Side a(*loop_, std::move(pair_.a));
  a.DestroyWhenClosed();
  Stranger(std::move(pair_.b)).Write("rubbish");
  EXPECT_FALSE(a.Closed().ok());
  EXPECT_EQ(a.closed_calls(), 1);
}

TEST_F(FrameConnectionTest, ItsDestructorClosesWithoutACallback) {
  Side a(*loop_, std::move(pair_.a));
  Stranger stranger(std::move(pair_.b));
  loop_->RunAndWait([&] {
    a.connection().Send("not waited for");
    a.Destroy();
  });
  EXPECT_TRUE(stranger.AtEnd());
  EXPECT_EQ(a.closed_calls(), 0);
}

TEST_F(FrameConnectionTest, AGracefulCloseSendsEverythingFirst) {
  Side a(*loop_, std::move(pair_.a));
  const std::string payload(size_t{4} << 20, 'x');
  loop_->RunAndWait([&] {
    for (int i = 0; i < 3; ++i) a.connection().Send(payload);
    a.connection().CloseGracefully(absl::Seconds(20));
    a.connection().Send("too late");
  });
  Stranger stranger(std::move(pair_.b));
  const std::string frame = EncodeFrame(payload);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(stranger.Read(frame.size()), frame) << i;
  EXPECT_TRUE(stranger.AtEnd());
  EXPECT_EQ(a.closed_calls(), 0) << "the peer has not closed yet";
  stranger.Close();
  EXPECT_TRUE(a.Closed().ok()) << a.Closed();
}

TEST_F(FrameConnectionTest, AGracefulCloseTakesNoMoreFrames) {
  Side a(*loop_, std::move(pair_.a));
  Stranger stranger(std::move(pair_.b));
  a.CloseGracefully();
  EXPECT_TRUE(stranger.AtEnd());
  stranger.Write(EncodeFrame("unwanted") + "and rubbish");
  stranger.Close();
  EXPECT_TRUE(a.Closed().ok()) << a.Closed();
  EXPECT_THAT(a.Frames(0), IsEmpty());
}

TEST_F(FrameConnectionTest, AGracefulCloseWithinAFrameCallbackDropsTheNextFrame) {
  Side a(*loop_, std::move(pair_.a));
  a.OnFrame([](Side& side, const std::string&) { side.connection().CloseGracefully(absl::Seconds(10)); });
  Stranger stranger(std::move(pair_.b));
  stranger.Write(EncodeFrame("first") + EncodeFrame("second"));
  EXPECT_TRUE(stranger.AtEnd());
  stranger.Close();
  EXPECT_TRUE(a.Closed().ok()) << a.Closed();
  EXPECT_THAT(a.Frames(1), ElementsAre("first"));
}

TEST_F(FrameConnectionTest, AGracefulCloseIsAnOrderlyEndForBothSides) {
  Side a(*loop_, std::move(pair_.a)), b(*loop_, std::move(pair_.b));
  a.CloseGracefully();
  EXPECT_TRUE(b.Closed().ok()) << b.Closed();
  EXPECT_TRUE(a.Closed().ok()) << a.Closed();
}

TEST_F(FrameConnectionTest, APeerThatStaysIsLeftAfterTheGrace) {
  Side a(*loop_, std::move(pair_.a));
  Stranger stays(std::move(pair_.b));
  a.CloseGracefully(absl::Milliseconds(20));
  EXPECT_EQ(a.Closed().code(), absl::StatusCode::kDeadlineExceeded) << a.Closed();
}

TEST_F(FrameConnectionTest, WhatThePeerSaidBeforeItClosedIsHeardDespiteAFailedWrite) {
  Side a(*loop_, std::move(pair_.a));
  Stranger stranger(std::move(pair_.b));
  // All in one function, so that the loop's first look at the socket is the write that fails.
  loop_->RunAndWait([&] {
    stranger.Write(EncodeFrame("refused: world size differs"));
    stranger.CloseWrite();
    stranger.Reset();
    a.connection().Send("hello");
  });
  EXPECT_FALSE(a.Closed().code() == absl::StatusCode::kUnknown) << a.Closed();
  EXPECT_THAT(a.Frames(1), ElementsAre("refused: world size differs"));
  EXPECT_EQ(a.closed_calls(), 1);
}

TEST_F(FrameConnectionTest, SendingAfterTheEndDoesNothing) {
  Side a(*loop_, std::move(pair_.a));
  Stranger(std::move(pair_.b)).Close();
  EXPECT_TRUE(a.Closed().ok());
  a.Send("nobody there");
  a.CloseGracefully();
  EXPECT_EQ(a.closed_calls(), 1);
}

}  // namespace
}  // namespace tutti
