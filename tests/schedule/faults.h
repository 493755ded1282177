// Faults that a step of a schedule can have, for tests. Each changes one step, or returns false if that step cannot
// have it.

#ifndef TUTTI_TESTS_SCHEDULE_FAULTS_H_
#define TUTTI_TESTS_SCHEDULE_FAULTS_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "src/schedule/schedule.h"

namespace tutti {

struct Fault {
  const char* name;
  std::function<bool(Schedule&, uint32_t step)> make;
};

inline bool GoesToAnotherPeer(Schedule& schedule, uint32_t step) {
  int& peer = schedule.steps[step].peer;
  if (peer < 0 || schedule.size < 3) return false;
  do {
    peer = (peer + 1) % schedule.size;
  } while (peer == schedule.rank);
  return true;
}

inline bool SwapsSources(Schedule& schedule, uint32_t step) {
  const Step& changed = schedule.steps[step];
  if (changed.source_count < 2) return false;
  std::swap(schedule.sources[changed.first_source], schedule.sources[changed.first_source + 1]);
  return true;
}

inline bool FlipsFinal(Schedule& schedule, uint32_t step) {
  schedule.steps[step].final = !schedule.steps[step].final;
  return true;
}

}  // namespace tutti

#endif  // TUTTI_TESTS_SCHEDULE_FAULTS_H_
