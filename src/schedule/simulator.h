// Simulator: what the schedules of all ranks together cost on a network, without one.
//
// Discrete events, no clock and no I/O: the same arguments give the same times. The model is LogGP with one server per
// network port. A message from p to q
//
//   1. costs p's thread send_overhead_us, and copy_us_per_byte for each byte;
//   2. passes p's port, which takes send_us_per_byte and then is free for the next message; the send step is done;
//   3. begins to arrive wire_latency_us after it began to leave, and passes q's port, at recv_us_per_byte, when it has
//      passed what came before, but not before its last byte is there;
//   4. costs q's thread recv_overhead_us, and copy_us_per_byte for each byte, once its receive step may begin.
//
// A rank has one thread, which also reduces and copies; ports and threads serve in the order in which things become
// ready. The operation is run as the engine runs it: as segments, `window` of them at a time on each rank. What the
// model does not know: contention inside the network, loss, full socket buffers, that a byte costs less while the whole
// operand fits into a cache, and whatever else a host is doing.

#ifndef TUTTI_SRC_SCHEDULE_SIMULATOR_H_
#define TUTTI_SRC_SCHEDULE_SIMULATOR_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "src/schedule/schedule.h"

namespace tutti {

struct CostModel {
  double wire_latency_us = 0;   // L
  double send_overhead_us = 0;  // o of a message
  double recv_overhead_us = 0;
  double send_us_per_byte = 0;  // G of a port
  double recv_us_per_byte = 0;
  double copy_us_per_byte = 0;    // of a thread: between memory and socket, at either end, and in a kCopy step
  double reduce_us_per_byte = 0;  // of a thread: for each byte of each source
  // If not 0, the threads of all ranks share so many cores, by turns: all ranks are on one host.
  int cores = 0;
  // Of a core that turns to another rank than it ran last: the switch, and for each byte of the step's operand, which
  // the rank before has pushed out of the core's cache.
  double turn_us = 0;
  double turn_us_per_byte = 0;
};

struct SimulatedOperation {
  uint64_t count = 0;  // elements of the operand, or of one block
  size_t element_bytes = 1;
  size_t accumulator_bytes = 1;  // of an element in the planes of a wide schedule
  uint64_t segment_count = 1;    // elements of the operand, or of each block, in a segment
  uint64_t window = 4;           // segments at a time
};

struct Prediction {
  double time_us = 0;  // until the last rank is done
  // Of the rank with most of them.
  uint64_t messages_sent = 0;
  uint64_t bytes_sent = 0;
  uint32_t peers = 0;  // so many sockets
};

// kInvalidArgument if a message has no receiver, or the schedules never end. Schedules are assumed to be well-formed
// (verifier.h); `schedule` is called once per rank and what it returns need only live until the next call. Memory: some
// 30 bytes a step of all ranks, and 2 more for each segment at a time.
absl::StatusOr<Prediction> Simulate(int size, absl::FunctionRef<const Schedule&(int rank)> schedule,
                                    const SimulatedOperation& operation, const CostModel& costs);

}  // namespace tutti

#endif  // TUTTI_SRC_SCHEDULE_SIMULATOR_H_
