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
  // `name` has at most 15 characters. All signals are blocked in the thread: they belong to the program.
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
