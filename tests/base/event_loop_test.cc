#include "src/base/event_loop.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/fd.h"
#include "src/base/thread.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;

// Readable from the start.
Fd Ready() { return Fd(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)); }

class EventLoopTest : public ::testing::Test {
 protected:
  static bool Wait(absl::Notification& done) { return done.WaitForNotificationWithTimeout(absl::Seconds(10)); }

  std::unique_ptr<EventLoop> loop_ = EventLoop::Start("tutti-test").value();
};

TEST_F(EventLoopTest, RunsPostedFunctionsInOrderOnItsThread) {
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) {
    loop_->Post([&, i] {
      if (loop_->OnLoopThread()) order.push_back(i);
    });
  }
  loop_->RunAndWait([&] { order.push_back(100); });
  ASSERT_EQ(order.size(), 101u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_FALSE(loop_->OnLoopThread());
}

TEST_F(EventLoopTest, PostIsNeverInline) {
  std::vector<std::string> order;
  absl::Notification done;
  loop_->Post([&] {
    loop_->Post([&] {
      order.push_back("posted");
      done.Notify();
    });
    order.push_back("after post");
  });
  ASSERT_TRUE(Wait(done));
  EXPECT_THAT(order, ElementsAre("after post", "posted"));
}

TEST_F(EventLoopTest, TakesPostsFromManyThreads) {
  int count = 0;
  {
    std::vector<Thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back("tutti-poster", [&] {
        for (int i = 0; i < 1000; ++i) loop_->Post([&] { ++count; });
      });
    }
  }
  loop_->RunAndWait([&] { EXPECT_EQ(count, 4000); });
}

TEST_F(EventLoopTest, DestructionRunsWhatWasPostedAndDropsTheRest) {
  auto token = std::make_shared<int>();
  std::weak_ptr<int> alive = token;
  bool posted_ran = false, timer_ran = false;
  Fd never(::eventfd(0, EFD_CLOEXEC));
  loop_->RunAndWait([&] {
    loop_->After(absl::Hours(1), [&timer_ran, token] { timer_ran = true; });
    EXPECT_TRUE(loop_->Watch(never.get(), EPOLLIN, [token](uint32_t) {}).ok());
  });
  token.reset();
  EXPECT_FALSE(alive.expired());
  loop_->Post([&] { posted_ran = true; });
  loop_.reset();
  EXPECT_TRUE(posted_ran);
  EXPECT_FALSE(timer_ran);
  EXPECT_TRUE(alive.expired());
}

// As a connection that is owned by its own callback does.
class UnwatchesWhenDestroyed {
 public:
  UnwatchesWhenDestroyed(EventLoop& loop, int fd, EventLoop::TimerId timer) : loop_(&loop), fd_(fd), timer_(timer) {}
  UnwatchesWhenDestroyed(UnwatchesWhenDestroyed&& other) noexcept
      : loop_(std::exchange(other.loop_, nullptr)), fd_(other.fd_), timer_(other.timer_) {}
  ~UnwatchesWhenDestroyed() {
    if (loop_ == nullptr) return;
    loop_->Unwatch(fd_);
    loop_->Cancel(timer_);
    loop_->Post([] {});
  }

 private:
  EventLoop* loop_;
  int fd_;
  EventLoop::TimerId timer_;
};

TEST_F(EventLoopTest, DroppedCallbacksMayCallTheLoopOnceMore) {
  Fd never(::eventfd(0, EFD_CLOEXEC));
  loop_->RunAndWait([&] {
    const EventLoop::TimerId timer = loop_->After(absl::Hours(1), [] {});
    loop_->After(absl::Hours(1), [owner = UnwatchesWhenDestroyed(*loop_, never.get(), timer)] {});
    EXPECT_TRUE(
        loop_->Watch(never.get(), EPOLLIN, [owner = UnwatchesWhenDestroyed(*loop_, never.get(), timer)](uint32_t) {})
            .ok());
  });
  loop_.reset();
}

TEST_F(EventLoopTest, WatchCallsBackUntilUnwatched) {
  Fd fd = Ready();
  int calls = 0;
  absl::Notification done;
  loop_->RunAndWait([&] {
    EXPECT_TRUE(loop_
                    ->Watch(fd.get(), EPOLLIN,
                            [&](uint32_t events) {
                              EXPECT_EQ(events, static_cast<uint32_t>(EPOLLIN));
                              if (++calls < 3) return;  // level-triggered: nobody has read it
                              loop_->Unwatch(fd.get());
                              done.Notify();
                            })
                    .ok());
  });
  ASSERT_TRUE(Wait(done));
  loop_->RunAndWait([] {});
  EXPECT_EQ(calls, 3);
}

TEST_F(EventLoopTest, RewatchChangesTheEvents) {
  Fd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));  // writable, not readable
  absl::Notification done;
  loop_->RunAndWait([&] {
    EXPECT_TRUE(loop_
                    ->Watch(fd.get(), EPOLLIN,
                            [&](uint32_t events) {
                              EXPECT_EQ(events, static_cast<uint32_t>(EPOLLOUT));
                              loop_->Unwatch(fd.get());
                              done.Notify();
                            })
                    .ok());
    loop_->Rewatch(fd.get(), EPOLLOUT);
  });
  EXPECT_TRUE(Wait(done));
}

TEST_F(EventLoopTest, RefusesASecondWatchAndADescriptorThatCannotBeWatched) {
  Fd fd(::eventfd(0, EFD_CLOEXEC));
  loop_->RunAndWait([&] {
    EXPECT_TRUE(loop_->Watch(fd.get(), EPOLLIN, [](uint32_t) {}).ok());
    EXPECT_FALSE(loop_->Watch(fd.get(), EPOLLIN, [](uint32_t) {}).ok());
    EXPECT_FALSE(loop_->Watch(-1, EPOLLIN, [](uint32_t) {}).ok());
    loop_->Unwatch(fd.get());
    EXPECT_TRUE(loop_->Watch(fd.get(), EPOLLIN, [](uint32_t) {}).ok());
    loop_->Unwatch(fd.get());
    loop_->Unwatch(fd.get());
  });
}

TEST_F(EventLoopTest, NoEventFollowsAnUnwatchInTheSameBatch) {
  Fd a = Ready(), b = Ready();
  int calls = 0;
  loop_->RunAndWait([&] {
    // Both are ready, so both events are in one batch; whichever comes first ends both watches.
    auto end_both = [&](uint32_t) {
      ++calls;
      loop_->Unwatch(a.get());
      loop_->Unwatch(b.get());
    };
    EXPECT_TRUE(loop_->Watch(a.get(), EPOLLIN, end_both).ok());
    EXPECT_TRUE(loop_->Watch(b.get(), EPOLLIN, end_both).ok());
  });
  absl::Notification later;
  loop_->RunAndWait([&] { loop_->After(absl::ZeroDuration(), [&] { later.Notify(); }); });
  ASSERT_TRUE(Wait(later));
  EXPECT_EQ(calls, 1);
}

TEST_F(EventLoopTest, AnEventNeverReachesTheNextOwnerOfItsDescriptor) {
  Fd a = Ready(), b = Ready();
  int stale = 0;
  loop_->RunAndWait([&] {
    auto replace_other = [&](Fd& self, Fd& other) {
      loop_->Unwatch(self.get());
      loop_->Unwatch(other.get());
      const int number = other.get();
      other = Fd();
      // The same number, now of a descriptor that is not readable.
      Fd successor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
      EXPECT_EQ(successor.get(), number);
      other = std::move(successor);
      EXPECT_TRUE(loop_->Watch(other.get(), EPOLLIN, [&](uint32_t) { ++stale; }).ok());
    };
    EXPECT_TRUE(loop_->Watch(a.get(), EPOLLIN, [&, replace_other](uint32_t) { replace_other(a, b); }).ok());
    EXPECT_TRUE(loop_->Watch(b.get(), EPOLLIN, [&, replace_other](uint32_t) { replace_other(b, a); }).ok());
  });
  absl::Notification later;
  loop_->RunAndWait([&] { loop_->After(absl::Milliseconds(1), [&] { later.Notify(); }); });
  ASSERT_TRUE(Wait(later));
  EXPECT_EQ(stale, 0);
  loop_.reset();
}

TEST_F(EventLoopTest, ACallbackMayEndTheWatchThatOwnsIt) {
  Fd fd = Ready();
  absl::Notification done;
  loop_->RunAndWait([&] {
    auto text = std::make_unique<std::string>("kept while the call lasts");
    EXPECT_TRUE(loop_
                    ->Watch(fd.get(), EPOLLIN,
                            [&, text = std::move(text)](uint32_t) {
                              loop_->Unwatch(fd.get());
                              EXPECT_EQ(*text, "kept while the call lasts");
                              done.Notify();
                            })
                    .ok());
  });
  EXPECT_TRUE(Wait(done));
}

TEST_F(EventLoopTest, TimersFireOnceInOrderAndNeverEarly) {
  std::vector<int> order;
  absl::Notification done;
  const auto start = std::chrono::steady_clock::now();
  loop_->RunAndWait([&] {
    loop_->After(absl::Milliseconds(20), [&] {
      order.push_back(20);
      done.Notify();
    });
    loop_->After(absl::Milliseconds(10), [&] { order.push_back(10); });
    loop_->After(absl::Milliseconds(-5), [&] { order.push_back(-5); });
    loop_->After(absl::InfiniteDuration(), [&] { order.push_back(0); });
  });
  ASSERT_TRUE(Wait(done));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(20));
  EXPECT_THAT(order, ElementsAre(-5, 10, 20));
}

TEST_F(EventLoopTest, ACancelledTimerDoesNotFire) {
  bool fired = false;
  absl::Notification done;
  loop_->RunAndWait([&] {
    const EventLoop::TimerId cancelled = loop_->After(absl::Milliseconds(1), [&] { fired = true; });
    const EventLoop::TimerId later = loop_->After(absl::Milliseconds(2), [&] { fired = true; });
    loop_->Cancel(cancelled);
    loop_->Cancel(cancelled);
    loop_->After(absl::Milliseconds(1), [&, later] { loop_->Cancel(later); });
    loop_->After(absl::Milliseconds(5), [&] { done.Notify(); });
  });
  ASSERT_TRUE(Wait(done));
  EXPECT_FALSE(fired);
}

TEST_F(EventLoopTest, ATimerThatRepeatsWithoutDelayLeavesRoomForTheRest) {
  bool stop = false;
  std::function<void()> repeat = [&] {
    if (!stop) loop_->After(absl::ZeroDuration(), [&] { repeat(); });
  };
  loop_->RunAndWait([&] { repeat(); });
  loop_->RunAndWait([&] { stop = true; });
  loop_.reset();  // before what its last timer refers to
}

TEST(EventLoopStartTest, ManyLoopsLeaveNoDescriptorBehind) {
  auto next_free = [] { return Fd(::dup(STDERR_FILENO)).get(); };
  const int before = next_free();
  for (int i = 0; i < 20; ++i) {
    std::vector<std::unique_ptr<EventLoop>> loops;
    for (int j = 0; j < 5; ++j) loops.push_back(EventLoop::Start("tutti-test").value());
  }
  EXPECT_EQ(next_free(), before);
}

}  // namespace
}  // namespace tutti
