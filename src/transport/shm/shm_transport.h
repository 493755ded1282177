// The shm transport: shared memory among the ranks of one host, and another endpoint for all others.

#ifndef TUTTI_SRC_TRANSPORT_SHM_SHM_TRANSPORT_H_
#define TUTTI_SRC_TRANSPORT_SHM_SHM_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "src/base/fd.h"
#include "src/transport/shm/buffer_registry.h"
#include "src/transport/shm/neighbourhood.h"
#include "src/transport/transport.h"

namespace tutti {

struct ShmOptions {
  std::vector<ShmNeighbour> neighbours;  // the ranks of this host by rank, this one included; more than one
  uint64_t group = 0;                    // equal for members of one group, and different for other groups
  Fd listener;                           // from ListenLocally; its name is this rank's address
  Fd wake;                               // an eventfd that ends the Sleep of `far`
  std::shared_ptr<BufferRegistry> buffers;
  absl::Time deadline;  // of the neighbours' meeting
  // For tests: called between the steps of reductions.
  absl::AnyInvocable<void()> pause;
};

// A collective of the neighbours; blocks until all have met. `far` carries what goes to all other ranks, and sleeps for
// both. After an error, which all neighbours get, `far` is as it was.
absl::StatusOr<std::unique_ptr<Endpoint>> MakeShmEndpoint(ShmOptions options, std::unique_ptr<Endpoint>& far);

}  // namespace tutti

#endif  // TUTTI_SRC_TRANSPORT_SHM_SHM_TRANSPORT_H_
