// What the drivers of other libraries share: the command line, the data, its check, and the output.
//
//   DRIVER [driver's own arguments] BYTES ITERATIONS WARMUP_ITERATIONS
//
// times the in-place sum of BYTES of float32 (bench/timing says how), and rank 0 prints
//
//   result bytes=1048576 iterations=100 median_us=275.1 min_us=270.4 p99_us=301.9 max_us=310.0 wrong=0

#ifndef TUTTI_BENCH_PEERS_PEER_H_
#define TUTTI_BENCH_PEERS_PEER_H_

#include <functional>
#include <memory>

#include "absl/types/span.h"

namespace tutti {

// A rank of another library's group. Failures are the library's: it ends the process, or throws.
class Peer {
 public:
  virtual ~Peer() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Where the data lies: memory of the program, unless the driver has its own. Null if there is none.
  virtual std::shared_ptr<float> Allocate(size_t count);
  // The sum over the ranks, in place, of data from Allocate, ready to be run any number of times.
  virtual std::function<void()> PrepareAllReduce(absl::Span<float> data) = 0;
  // False for a driver that only moves as many bytes as an all-reduce would.
  virtual bool reduces() const { return true; }
  virtual void MaxOverRanks(absl::Span<double> values) = 0;
  virtual void Barrier() = 0;
};

// Takes the last three arguments. Returns the exit status: 1 if an element was wrong, 2 for a bad command line.
int RunPeer(Peer& peer, int argc, char** argv);

}  // namespace tutti

#endif  // TUTTI_BENCH_PEERS_PEER_H_
