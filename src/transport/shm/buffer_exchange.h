// BufferExchange: the buffers of this process as its neighbours know them, and theirs as this process does.
//
// A buffer is handed over, to all neighbours, when it is first shared. Not thread-safe.

#ifndef TUTTI_SRC_TRANSPORT_SHM_BUFFER_EXCHANGE_H_
#define TUTTI_SRC_TRANSPORT_SHM_BUFFER_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/transport/shm/board.h"
#include "src/transport/shm/buffer_registry.h"
#include "src/transport/shm/neighbourhood.h"
#include "src/transport/shm/segment.h"

namespace tutti {

class BufferExchange {
 public:
  BufferExchange(const Neighbourhood& neighbourhood, std::shared_ptr<BufferRegistry> buffers);

  // Where neighbours find the memory; id 0 if they do not: it is no buffer of the library, or cannot be handed over.
  SharedPlace Share(const void* data, size_t bytes);

  // A neighbour's memory, of which it has told where it is. An error if it has not handed it over, or the buffer has
  // ended. Mapped as long as the neighbour keeps the buffer.
  absl::StatusOr<std::byte*> Resolve(int index, const SharedPlace& place, size_t bytes);

  // Cuts this process's buffer off from all neighbours.
  void Isolate(uint64_t id) { (void)buffers_->Isolate(id); }

 private:
  bool Broadcast(uint32_t kind, uint64_t id, size_t bytes, absl::Span<const int> descriptors);
  void TellOfEnded();
  absl::Status ReadPackets(int index);

  const Neighbourhood& neighbourhood_;
  const std::shared_ptr<BufferRegistry> buffers_;
  std::set<uint64_t> announced_;                     // own buffers that neighbours know
  size_t ended_ = 0;                                 // own buffers that have ended, as far as considered
  std::vector<std::map<uint64_t, Segment>> theirs_;  // by neighbour
};

}  // namespace tutti

#endif  // TUTTI_SRC_TRANSPORT_SHM_BUFFER_EXCHANGE_H_
