// Send and recv kPair: one message, whole, to or from the peer (the key's root).

#include "src/schedule/algorithms.h"
#include "src/schedule/schedule_builder.h"

namespace tutti {

Schedule PairSend(const ScheduleKey& key) {
  ScheduleBuilder builder(key, /*slices=*/1);
  builder.Send({.space = kInput}, key.root);
  return std::move(builder).Build();
}

Schedule PairRecv(const ScheduleKey& key) {
  ScheduleBuilder builder(key, /*slices=*/1);
  builder.Recv(key.root, {.space = kOutput});
  return std::move(builder).Build();
}

}  // namespace tutti
