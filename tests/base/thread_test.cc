#include "src/base/thread.h"

#include <pthread.h>
#include <signal.h>

#include <string>
#include <utility>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace tutti {
namespace {

TEST(ThreadTest, HasItsNameCutToWhatTheSystemTakes) {
  std::string name;
  Thread("tutti-0123456789abcdef", [&] {
    char text[16] = {};
    pthread_getname_np(pthread_self(), text, sizeof(text));
    name = text;
  }).Join();
  EXPECT_EQ(name, "tutti-012345678");
}

TEST(ThreadTest, BlocksTheProgramsSignalsButNotItsOwnFaults) {
  sigset_t before, inside, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  Thread("tutti-test", [&] { pthread_sigmask(SIG_SETMASK, nullptr, &inside); }).Join();
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGPIPE, SIGUSR1, SIGALRM}) {
    EXPECT_EQ(sigismember(&inside, signal), 1) << signal;
    EXPECT_EQ(sigismember(&after, signal), sigismember(&before, signal)) << signal;
  }
  EXPECT_EQ(sigismember(&inside, SIGSEGV), 0);
}

TEST(ThreadTest, IsJoinedByItsDestructor) {
  bool ran = false;
  absl::Notification go;
  {
    Thread thread("tutti-test", [&] {
      go.WaitForNotification();
      ran = true;
    });
    Thread moved = std::move(thread);
    go.Notify();
  }
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace tutti
