// Channels: which send a receive matches. The k-th message from one rank to another is the k-th in the lists of both.

#ifndef TUTTI_SRC_SCHEDULE_CHANNELS_H_
#define TUTTI_SRC_SCHEDULE_CHANNELS_H_

#include <cstdint>
#include <vector>

#include "src/schedule/schedule.h"

namespace tutti {

class Channels {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit Channels(int size) : first_channel_(1, 0), sends_to_(size) {}

  // The sends of the next rank, the steps of which are numbered from `first_node`.
  void Add(const Schedule& schedule, uint32_t first_node);
  // The first send from one rank to another that has not been taken yet, or kNone.
  uint32_t Take(int from, int to);
  // A send that has not been taken, or kNone.
  uint32_t Left() const;

 private:
  // The sends of one rank to one peer, in order.
  struct Channel {
    int to;
    uint32_t next;  // in sends_: the first one not yet taken
    uint32_t end;
  };

  std::vector<Channel> channels_;        // by sender, then receiver
  std::vector<uint32_t> first_channel_;  // of each sender, and the end
  std::vector<uint32_t> sends_;          // by channel
  std::vector<uint32_t> sends_to_;       // scratch, by peer
};

}  // namespace tutti

#endif  // TUTTI_SRC_SCHEDULE_CHANNELS_H_
