// Guardian: a small process that outlives this one by a moment, to kill what it leaves behind.
//
// The kernel kills the ranks themselves when the launcher dies (PR_SET_PDEATHSIG), but not what they have started: a
// shell script that is killed leaves its program running. The guardian sees the launcher's end and kills whole process
// groups. It is out of reach of the terminal's signals.

#ifndef TUTTI_TOOLS_TUTTI_RUN_GUARDIAN_H_
#define TUTTI_TOOLS_TUTTI_RUN_GUARDIAN_H_

#include <sys/types.h>

#include <atomic>
#include <memory>

#include "absl/status/statusor.h"
#include "src/base/fd.h"

namespace tutti::launch {

class Guardian {
 public:
  // Forks: to be called while this process has one thread, and before it opens what the guardian should not hold.
  static absl::StatusOr<std::unique_ptr<Guardian>> Start(int slots);
  ~Guardian();  // ends the guardian; it kills what is still watched
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  void Watch(int slot, pid_t group) { groups_[slot] = group; }
  // The group is gone; its number may be another's soon.
  void Forget(int slot) { groups_[slot] = 0; }

 private:
  Guardian(std::atomic<pid_t>* groups, int slots) : groups_(groups), slots_(slots) {}
  void KillAll() const;

  std::atomic<pid_t>* const groups_;  // shared between the two processes; 0: free
  const int slots_;
  pid_t pid_ = 0;
  Fd lifeline_;  // write end of a pipe: the guardian reads its end when this process is gone
};

}  // namespace tutti::launch

#endif  // TUTTI_TOOLS_TUTTI_RUN_GUARDIAN_H_
