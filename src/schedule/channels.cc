#include "src/schedule/channels.h"

#include <algorithm>
#include <utility>

namespace tutti {

void Channels::Add(const Schedule& schedule, uint32_t first_node) {
  std::fill(sends_to_.begin(), sends_to_.end(), 0);
  for (const Step& step : schedule.steps) {
    if (step.kind == StepKind::kSend) ++sends_to_[step.peer];
  }
  uint32_t end = static_cast<uint32_t>(sends_.size());
  for (size_t peer = 0; peer < sends_to_.size(); ++peer) {
    if (sends_to_[peer] == 0) continue;
    const uint32_t begin = end;
    end += std::exchange(sends_to_[peer], begin);
    channels_.push_back({.to = static_cast<int>(peer), .next = begin, .end = end});
  }
  first_channel_.push_back(static_cast<uint32_t>(channels_.size()));
  sends_.resize(end);
  for (uint32_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    if (step.kind == StepKind::kSend) sends_[sends_to_[step.peer]++] = first_node + i;
  }
}

uint32_t Channels::Take(int from, int to) {
  const auto begin = channels_.begin() + first_channel_[from];
  const auto end = channels_.begin() + first_channel_[from + 1];
  const auto found = std::lower_bound(begin, end, to, [](const Channel& c, int peer) { return c.to < peer; });
  return found == end || found->to != to || found->next == found->end ? kNone : sends_[found->next++];
}

uint32_t Channels::Left() const {
  for (const Channel& channel : channels_) {
    if (channel.next != channel.end) return sends_[channel.next];
  }
  return kNone;
}

}  // namespace tutti
