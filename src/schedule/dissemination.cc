// Barrier kBruck, known as dissemination: what spreads is the news that a rank has arrived.
//
// In the phase of distance d = 1, 2, 4, ... rank r tells rank r + d (mod n) that it and all ranks it has heard of are
// here, and hears the same from rank r - d. Before that phase it knows of d ranks: r-d+1 .. r. So ceil(log2 n) phases
// are enough, for any n. For n = 5, on rank 0:
//
//   send to 1;  recv from 4 (knows 4 0);  send to 2;  recv from 3 (knows 2 3 4 0);  send to 4;  recv from 1 (knows all)
//
// Messages are empty. Each is received in a plane of its own, so that receiving waits for nothing; and a phase is sent
// when all earlier ones have been received, which no memory shows and is therefore ordered by hand.

#include <vector>

#include "src/schedule/algorithms.h"
#include "src/schedule/schedule_builder.h"

namespace tutti {

Schedule DisseminationBarrier(const ScheduleKey& key) {
  ScheduleBuilder builder(key, /*slices=*/1);
  std::vector<ScheduleBuilder::StepIndex> heard;
  for (int distance = 1; distance < key.size; distance *= 2) {
    const auto send = builder.Send({.space = kInput}, (key.rank + distance) % key.size);
    for (const auto recv : heard) builder.Order(recv, send);
    heard.push_back(builder.Recv((key.rank + key.size - distance) % key.size, {.space = builder.AddPlane(0, 1)}));
  }
  return std::move(builder).Build();
}

}  // namespace tutti
