// Program: a schedule with the look-up tables that running it needs. Built once, cached, immutable.

#ifndef TUTTI_SRC_ENGINE_PROGRAM_H_
#define TUTTI_SRC_ENGINE_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "src/schedule/builders.h"
#include "src/schedule/schedule.h"

namespace tutti {

struct Program {
  struct Source {  // of messages
    int peer = 0;
    std::vector<uint32_t> steps;  // kRecv steps, by ordinal
  };

  Schedule schedule;
  std::vector<uint32_t> dependencies;  // by step: the counters of a fresh segment
  std::vector<uint32_t> initial;       // steps without dependencies
  std::vector<uint32_t> ordinals;      // by step: of the message, among those to (from) the same peer
  std::vector<Source> receives;

  // The kRecv step of a message, or -1.
  int64_t ReceiveStep(int peer, uint32_t ordinal) const;
};

Program Compile(Schedule schedule);

// The programs used so far. Not synchronised.
class ProgramCache {
 public:
  absl::StatusOr<const Program*> Get(const ScheduleKey& key);

 private:
  struct Entry {
    ScheduleKey key;
    std::unique_ptr<Program> program;
  };
  std::vector<Entry> entries_;  // a handful, the latest first
};

}  // namespace tutti

#endif  // TUTTI_SRC_ENGINE_PROGRAM_H_
