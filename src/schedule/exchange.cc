// All-reduce kExchange and reduce kGather: whole inputs travel in one message and are reduced where they arrive.
//
// Who is to have the result receives every other rank's input, each into a scratch plane of its own, and reduces all n
// in rank order in one pass. In an all-reduce this is everybody; in a reduce it is the root, and the others only send.
// For n = 3, on rank 1 of an all-reduce:
//
//   send kInput to 2;  send kInput to 0;  recv plane of 0 from 0;  recv plane of 2 from 2;
//   kOutput = tree(plane of 0, kInput, plane of 2)
//
// One message deep and rounded once, but n - 1 whole inputs for one rank to take in: for a few ranks, and operands so
// small that a message costs the same whatever is in it.

#include <vector>

#include "src/schedule/algorithms.h"
#include "src/schedule/schedule_builder.h"

namespace tutti {
namespace {

constexpr Operand kWholeInput = {.space = kInput};

void ReduceAllInputs(ScheduleBuilder& builder, const ScheduleKey& key) {
  std::vector<Operand> inputs(key.size, kWholeInput);
  for (int owner = 0; owner < key.size; ++owner) {
    if (owner == key.rank) continue;
    inputs[owner].space = builder.AddPlane(0, 1);
    builder.Recv(owner, inputs[owner]);
  }
  builder.ReduceFinal(inputs, {.space = kOutput});
}

}  // namespace

Schedule ExchangeAllReduce(const ScheduleKey& key) {
  ScheduleBuilder builder(key, /*slices=*/1);
  // The next rank first, so that no rank is everybody's first.
  for (int distance = 1; distance < key.size; ++distance) {
    builder.Send(kWholeInput, (key.rank + distance) % key.size);
  }
  ReduceAllInputs(builder, key);
  return std::move(builder).Build();
}

Schedule GatherReduce(const ScheduleKey& key) {
  ScheduleBuilder builder(key, /*slices=*/1);
  if (key.rank == key.root) {
    ReduceAllInputs(builder, key);
  } else {
    builder.Send(kWholeInput, key.root);
  }
  return std::move(builder).Build();
}

}  // namespace tutti
