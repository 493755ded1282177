#include "src/rendezvous/straggler_watch.h"

#include <algorithm>
#include <limits>

namespace tutti {

std::optional<std::string> StragglerWatch::Look(absl::Span<const RankView> ranks, absl::Time now) {
  if (now < next_look_) return std::nullopt;
  next_look_ = now + patience_ / 8;

  uint32_t behind = std::numeric_limits<uint32_t>::max();
  for (const RankView& rank : ranks) behind = std::min(behind, rank.latest.has_value() ? rank.latest->sequence : 0);
  const uint32_t awaited = behind + 1;
  const bool waiting = std::any_of(ranks.begin(), ranks.end(), [&](const RankView& rank) {
    return rank.latest.has_value() && rank.latest->sequence >= awaited && !rank.latest->done;
  });
  if (!waiting) {
    awaited_ = 0;
  } else if (awaited != awaited_) {
    awaited_ = awaited;
    since_ = now;
  } else if (awaited != warned_ && now - since_ >= patience_) {
    warned_ = awaited;
    return StragglerWarning(ranks, awaited, now - since_, now);
  }
  return std::nullopt;
}

}  // namespace tutti
