// All-reduce kGather: every rank gets the whole inputs of all ranks and reduces them itself.
//
// Bruck's exchange (bruck_exchange.h) gathers the inputs: this rank's own stays in kInput, each other rank's has a
// scratch plane. One reduction over all of them, in rank order, ends the operation. For n = 3, on rank 1:
//
//   send kInput to 0;  recv plane of 2 from 2;  send kInput to 2;  recv plane of 0 from 0;
//   kOutput = tree(plane of 0, kInput, plane of 2)
//
// A rank sends n - 1 times the operand, but only ceil(log2 n) messages follow one another, for any n, and no rank
// reduces before another: the shortest way for operands of a few hundred bytes.

#include <vector>

#include "src/schedule/algorithms.h"
#include "src/schedule/bruck_exchange.h"
#include "src/schedule/schedule_builder.h"

namespace tutti {

Schedule GatherAllReduce(const ScheduleKey& key) {
  ScheduleBuilder builder(key, /*slices=*/1);
  std::vector<Operand> inputs(key.size);
  for (int owner = 0; owner < key.size; ++owner) {
    inputs[owner] = {.space = owner == key.rank ? kInput : builder.AddPlane(0, 1)};
  }
  AddBruckExchange(builder, key.size, key.rank, [&](int owner) { return inputs[owner]; });
  builder.ReduceFinal(inputs, {.space = kOutput});
  return std::move(builder).Build();
}

}  // namespace tutti
