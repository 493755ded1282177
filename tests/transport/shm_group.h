// Endpoints of the shm transport, over tcp on loopback for ranks that are no neighbours, all in this process.

#ifndef TUTTI_TESTS_TRANSPORT_SHM_GROUP_H_
#define TUTTI_TESTS_TRANSPORT_SHM_GROUP_H_

#include <functional>
#include <memory>
#include <vector>

#include "src/transport/shm/shm_transport.h"
#include "src/transport/transport.h"

namespace tutti {

struct ShmGroup {
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  std::vector<std::shared_ptr<BufferRegistry>> buffers;
};

// The first ranks_per_host ranks share memory, and so on; 0: all.
ShmGroup MakeShmGroup(int size, int ranks_per_host = 0, const std::function<void()>& pause = nullptr);

}  // namespace tutti

#endif  // TUTTI_TESTS_TRANSPORT_SHM_GROUP_H_
