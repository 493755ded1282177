// ForkGuard: tells a forked child from the process that made the object.

#ifndef TUTTI_SRC_BASE_FORK_GUARD_H_
#define TUTTI_SRC_BASE_FORK_GUARD_H_

#include <sys/types.h>

namespace tutti {

// Thread-safe. The check costs one load: the kernel clears the guard's page in a child.
class ForkGuard {
 public:
  ForkGuard();
  ~ForkGuard();
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

  bool InChild() const { return page_ != nullptr && *page_ == 0; }
  pid_t creator() const { return creator_; }

 private:
  volatile int* page_ = nullptr;
  pid_t creator_;
};

}  // namespace tutti

#endif  // TUTTI_SRC_BASE_FORK_GUARD_H_
