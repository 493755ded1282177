#include "src/engine/program.h"

#include <algorithm>
#include <map>
#include <utility>

#include "src/base/status_macros.h"

namespace tutti {

int64_t Program::ReceiveStep(int peer, uint32_t ordinal) const {
  for (const Source& source : receives) {
    if (source.peer == peer) return ordinal < source.steps.size() ? int64_t{source.steps[ordinal]} : -1;
  }
  return -1;
}

Program Compile(Schedule schedule) {
  Program program;
  std::map<int, uint32_t> sent;  // messages so far, by peer
  std::map<int, size_t> source_of;
  for (uint32_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    program.dependencies.push_back(step.dependencies);
    if (step.dependencies == 0) program.initial.push_back(i);
    uint32_t ordinal = 0;
    if (step.kind == StepKind::kSend) ordinal = sent[step.peer]++;
    if (step.kind == StepKind::kRecv) {
      const auto [position, is_new] = source_of.try_emplace(step.peer, program.receives.size());
      if (is_new) program.receives.push_back({.peer = step.peer, .steps = {}});
      std::vector<uint32_t>& steps = program.receives[position->second].steps;
      ordinal = static_cast<uint32_t>(steps.size());
      steps.push_back(i);
    }
    program.ordinals.push_back(ordinal);
  }
  program.schedule = std::move(schedule);
  return program;
}

absl::StatusOr<const Program*> ProgramCache::Get(const ScheduleKey& key) {
  auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.key == key; });
  if (found == entries_.end()) {
    TUTTI_ASSIGN_OR_RETURN(Schedule schedule, BuildSchedule(key));
    entries_.push_back({key, std::make_unique<Program>(Compile(std::move(schedule)))});
    found = entries_.end() - 1;
  }
  std::rotate(entries_.begin(), found, found + 1);
  return entries_.front().program.get();
}

}  // namespace tutti
