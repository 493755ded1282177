// Thread: named, and joined by its destructor.

#ifndef TUTTI_SRC_BASE_THREAD_H_
#define TUTTI_SRC_BASE_THREAD_H_

#include <string>
#include <thread>

#include "absl/functional/any_invocable.h"

namespace tutti {

class Thread {
 public:
  Thread() = default;
  // `name` has at most 15 characters. Signals are blocked in the thread, but for its own faults (SIGSEGV, ...): they
  // belong to the program. Throws std::system_error if the system has no thread to give.
  Thread(std::string name, absl::AnyInvocable<void()> body);
  Thread(Thread&&) = default;
  Thread& operator=(Thread&&) = delete;
  ~Thread() { Join(); }
  void Join() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::thread thread_;
};

}  // namespace tutti

#endif  // TUTTI_SRC_BASE_THREAD_H_
