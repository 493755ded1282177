// Neighbourhood: the ranks of a group that share memory with this one, each with a segment that all of them have
// mapped.
//
// Who thinks that they are on one host connects; that they could hand over descriptors proves it. It is all or nothing:
// the lowest rank hears of everyone's success and then tells all, so that all ranks of a host agree on whether they
// share memory.

#ifndef TUTTI_SRC_TRANSPORT_SHM_NEIGHBOURHOOD_H_
#define TUTTI_SRC_TRANSPORT_SHM_NEIGHBOURHOOD_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "src/base/fd.h"
#include "src/transport/shm/segment.h"

namespace tutti {

struct ShmNeighbour {
  int rank = 0;         // in the group
  std::string address;  // LocalListener::name of its listener
};

struct NeighbourhoodOptions {
  std::vector<ShmNeighbour> neighbours;  // by rank, this one included; more than one
  int rank = 0;                          // this one's
  uint64_t group = 0;                    // equal for members of one group, and different for other groups
  Fd listener;                           // from ListenLocally; its name is this rank's address
  Fd doorbell;                           // an eventfd: others write to it to wake this rank
  size_t segment_bytes = 0;              // of each rank's segment
  absl::Time deadline;
};

class Neighbourhood {
 public:
  // Blocks until all have met. An error means that all of them fail, if not in the same words.
  static absl::StatusOr<Neighbourhood> Meet(NeighbourhoodOptions options);

  // Neighbours are counted from 0, in the order of their ranks.
  int count() const { return static_cast<int>(neighbours_.size()); }
  int self() const { return self_; }
  int rank(int index) const { return neighbours_[static_cast<size_t>(index)].rank; }
  std::byte* segment(int index) const { return neighbours_[static_cast<size_t>(index)].segment.data(); }
  // -1 for this rank itself.
  int socket(int index) const { return neighbours_[static_cast<size_t>(index)].socket.get(); }
  // Whether the neighbour, another one, has closed its end, or died.
  bool HasClosed(int index) const;
  void Ring(int index) const;

 private:
  struct Neighbour {
    int rank = 0;
    Segment segment;
    Fd socket, doorbell;
  };

  Neighbourhood() = default;
  absl::Status CallLower(const NeighbourhoodOptions& options);
  absl::Status AdmitHigher(const NeighbourhoodOptions& options);
  absl::Status HearLower(const NeighbourhoodOptions& options);
  absl::Status Agree(const NeighbourhoodOptions& options);
  absl::Status Introduce(const NeighbourhoodOptions& options, int socket) const;
  absl::StatusOr<int> Welcome(const NeighbourhoodOptions& options, Fd& socket);

  std::vector<Neighbour> neighbours_;
  int self_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_SRC_TRANSPORT_SHM_NEIGHBOURHOOD_H_
