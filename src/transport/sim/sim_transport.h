// The sim transport: any number of ranks in one process, with seeded delays and a clock moved by hand or by waiting.
//
// Messages between two ranks on one channel keep their order; between different pairs they overtake each other as the
// seed will have it. Payload is copied at delivery, in pieces of random size: an engine that reads it too early, or
// reuses memory too early, is found out.

#ifndef TUTTI_SRC_TRANSPORT_SIM_SIM_TRANSPORT_H_
#define TUTTI_SRC_TRANSPORT_SIM_SIM_TRANSPORT_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "src/transport/transport.h"

namespace tutti {

struct SimOptions {
  int size = 1;
  uint64_t seed = 1;
  // Each message is delayed by a random number of Polls of its receiver, up to this.
  int delay_polls_max = 3;
};

// The network that the endpoints share. Endpoints may be used from different threads, one thread each at a time.
class SimNetwork {
 public:
  static std::shared_ptr<SimNetwork> Create(const SimOptions& options);
  virtual ~SimNetwork() = default;

  // Once per rank. Keeps the network alive.
  virtual std::unique_ptr<Endpoint> MakeEndpoint(int rank) = 0;
  // The rank's messages stop, and every other rank that waits for it, or uses it later, is told PeerLost.
  virtual void Kill(int rank, absl::Status why) = 0;
};

}  // namespace tutti

#endif  // TUTTI_SRC_TRANSPORT_SIM_SIM_TRANSPORT_H_
