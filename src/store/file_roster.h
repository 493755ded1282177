// The processes that opened a file store, and what they mean for one that wants to open it now.

#ifndef TUTTI_SRC_STORE_FILE_ROSTER_H_
#define TUTTI_SRC_STORE_FILE_ROSTER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/identity/hello.h"

namespace tutti {

struct Opener {
  enum class Life : uint8_t {
    kAlive,   // it holds its slot
    kClosed,  // it said so
    kDead,    // neither, and its slot is governed by this kernel: certain
    kGone,  // neither, on another host or before a reboot: in all likelihood dead, but a lock may not have got through
  };
  Identity identity;
  absl::Time opened;
  Life life = Life::kAlive;
};

struct Admission {
  enum class Decision : uint8_t {
    kJoin,      // the job is ours and is assembling
    kTakeOver,  // nobody is left: empty the file and begin anew
    kWait,      // our job's previous group is just being closed: look again soon
    kRefuse,
  };
  Decision decision = Decision::kRefuse;
  absl::Status why;  // of kRefuse; of kWait, if it does not change
};

// `openers` has each rank once, with what happened last. Pure.
Admission Admit(const Identity& self, const std::vector<Opener>& openers);

}  // namespace tutti

#endif  // TUTTI_SRC_STORE_FILE_ROSTER_H_
