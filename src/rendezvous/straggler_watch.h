// StragglerWatch: notices, from what heartbeats tell, that ranks wait long for others. Pure: time is passed in.

#ifndef TUTTI_SRC_RENDEZVOUS_STRAGGLER_WATCH_H_
#define TUTTI_SRC_RENDEZVOUS_STRAGGLER_WATCH_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "src/rendezvous/verdict_text.h"

namespace tutti {

class StragglerWatch {
 public:
  // `patience`: how long ranks wait before it is worth a warning.
  explicit StragglerWatch(absl::Duration patience) : patience_(patience) {}

  // A warning that is due; one for each operation. Cheap if called often.
  std::optional<std::string> Look(absl::Span<const RankView> ranks, absl::Time now);

 private:
  const absl::Duration patience_;
  absl::Time next_look_ = absl::InfinitePast();
  uint32_t awaited_ = 0;  // the first operation that a rank has not called; 0: nobody waits for it
  absl::Time since_;      // when somebody was first seen to wait for it
  uint32_t warned_ = 0;   // the last operation that was warned of
};

}  // namespace tutti

#endif  // TUTTI_SRC_RENDEZVOUS_STRAGGLER_WATCH_H_
