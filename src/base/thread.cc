#include "src/base/thread.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

namespace tutti {
namespace {

// Blocks signals in the calling thread, so that a thread made meanwhile never sees one: blocking them in the new thread
// would leave a gap at its start.
class SignalBlock {
 public:
  SignalBlock() {
    sigset_t signals;
    sigfillset(&signals);
    for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) sigdelset(&signals, fault);
    pthread_sigmask(SIG_BLOCK, &signals, &before_);
  }
  ~SignalBlock() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

Thread::Thread(std::string name, absl::AnyInvocable<void()> body) {
  SignalBlock block;
  thread_ = std::thread([name = std::move(name), body = std::move(body)]() mutable {
    pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
    body();
  });
}

}  // namespace tutti
