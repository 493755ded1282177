// SharedReducers of one process, for tests: with nothing above them, driven by hand.

#ifndef TUTTI_TESTS_TRANSPORT_REDUCER_RANKS_H_
#define TUTTI_TESTS_TRANSPORT_REDUCER_RANKS_H_

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "src/transport/shm/shared_reducer.h"

namespace tutti {

// What became of a reduction.
class ReductionSink final : public MessageSink {
 public:
  Delivery Arrived(int, Channel, const MessageTag&, uint64_t) override;
  void Received(int, Channel, const MessageTag&) override;
  void Sent(uint64_t) override;
  void PeerLost(int peer, absl::Status why) override;
  void Reduced() override { reduced = true; }
  void Disagrees(int peer, bool before) override { disagreement = {peer, before}; }

  struct Disagreement {
    int peer;
    bool before;
  };
  bool reduced = false;
  std::optional<Disagreement> disagreement;
};

class ReducerRank {
 public:
  ReducerRank(Neighbourhood met, const SegmentLayout& layout, std::function<void()> pause);

  // To its end, within a bounded time.
  ReductionSink Reduce(const SharedReduction& reduction);

  Board& board() { return layout.board(neighbourhood.segment(neighbourhood.self())); }
  int rank() const { return neighbourhood.self(); }

  Neighbourhood neighbourhood;
  const SegmentLayout layout;
  const std::shared_ptr<BufferRegistry> buffers = BufferRegistry::Create();
  BufferExchange exchange{neighbourhood, buffers};
  SharedReducer reducer;
};

// Neighbours by rank. `pause`: see SharedReducer.
std::vector<std::unique_ptr<ReducerRank>> MakeReducerRanks(int count, const std::function<void()>& pause = nullptr);

// The sum of `count` floats.
SharedReduction SumOf(const float* input, float* output, size_t count);

}  // namespace tutti

#endif  // TUTTI_TESTS_TRANSPORT_REDUCER_RANKS_H_
