// How it works.
//
// The steps of all ranks are packed into one array of nodes. Everything that takes time is a first-in first-out server,
// so its results are a stream in order of time, and there are four streams per rank: what its thread finishes, what has
// left its port, what begins to arrive elsewhere, and what has come in through its port. The next event is the earliest
// head of all streams; among equals that of the lowest number. So the heap holds streams, not messages.

#include "src/schedule/simulator.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <limits>
#include <queue>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/status_macros.h"
#include "src/schedule/builders.h"
#include "src/schedule/channels.h"

namespace tutti {
namespace {

struct Node {
  uint32_t link = 0;             // message: the peer's node; else: how many sources
  uint32_t first_successor = 0;  // in successors_; the next node's ends them
  uint32_t arrived = 0;          // kRecv: messages so far, one a segment
  uint16_t rank = 0;
  uint16_t first = 0;  // slice
  uint16_t count = 0;  // of slices
  uint16_t dependencies = 0;
  StepKind kind = StepKind::kSend;
  bool accumulators = false;  // the operand holds them
};

// A step of a segment.
struct Task {
  uint32_t node = 0;
  uint64_t segment = 0;
};

constexpr uint32_t kNobody = UINT32_MAX;

enum Stream { kThread, kLeft, kArriving, kArrived, kStreams };

class Simulator {
 public:
  Simulator(int size, const SimulatedOperation& operation, const CostModel& costs)
      : operation_(operation),
        costs_(costs),
        segments_(operation.count == 0 ? 1 : (operation.count - 1) / operation.segment_count + 1),
        window_(std::min(operation.window, segments_)),
        cores_(costs.cores == 0 ? size : costs.cores, kNobody),
        ranks_(size),
        streams_(static_cast<size_t>(size) * kStreams),
        channels_(size) {
    for (int core = 0; core < costs.cores; ++core) free_cores_.push_back(static_cast<uint32_t>(core));
  }

  absl::Status Load(absl::FunctionRef<const Schedule&(int rank)> schedule) {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) TUTTI_RETURN_IF_ERROR(LoadRank(rank, schedule(rank)));
    nodes_.push_back({.first_successor = static_cast<uint32_t>(successors_.size())});
    for (uint32_t i = 0; i + 1 < nodes_.size(); ++i) {
      Node& node = nodes_[i];
      if (node.kind != StepKind::kRecv) continue;
      const uint32_t sender = channels_.Take(static_cast<int>(node.link), node.rank);
      if (sender == Channels::kNone) {
        return absl::InvalidArgumentError(
            absl::StrCat("rank ", node.rank, " waits for a message that rank ", node.link, " does not send"));
      }
      node.link = sender;
      nodes_[sender].link = i;
    }
    if (const uint32_t left = channels_.Left(); left != Channels::kNone) {
      return absl::InvalidArgumentError(absl::StrCat("rank ", nodes_[left].rank, " sends a message that rank ",
                                                     nodes_[left].link, " does not receive"));
    }
    waiting_.resize(nodes_.size() * window_);
    return absl::OkStatus();
  }

  absl::Status Run() {
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) BeginSegments(rank);
    while (!heads_.empty()) {
      const auto [time, index] = heads_.top();
      heads_.pop();
      std::deque<Event>& stream = streams_[index];
      const Task task = stream.front().task;
      stream.pop_front();
      if (!stream.empty()) heads_.push({stream.front().time, index});
      now_ = time;
      Handle(index / kStreams, static_cast<Stream>(index % kStreams), task);
    }
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].oldest_segment == segments_) continue;
      return absl::InvalidArgumentError(absl::StrCat("the schedule of rank ", rank, " never ends"));
    }
    return absl::OkStatus();
  }

  Prediction Result() const {
    Prediction result = {.time_us = now_};
    for (const Rank& rank : ranks_) {
      result.messages_sent = std::max(result.messages_sent, rank.messages);
      result.bytes_sent = std::max(result.bytes_sent, rank.bytes);
      result.peers = std::max(result.peers, rank.peers);
    }
    return result;
  }

 private:
  struct Rank {
    uint32_t first_node = 0;
    uint32_t steps = 0;
    uint64_t next_segment = 0;
    uint64_t oldest_segment = 0;      // all before are complete
    std::vector<uint32_t> remaining;  // steps, by segment modulo window
    std::deque<Task> tasks;           // for the thread
    bool runs = false;                // or waits for a core
    uint32_t core = 0;                // it runs on
    double out_free = 0;              // when the port may serve the next message
    double in_free = 0;
    uint64_t messages = 0;
    uint64_t bytes = 0;
    uint32_t peers = 0;
  };
  struct Event {
    double time;
    Task task;
  };
  using Head = std::pair<double, uint32_t>;  // time, stream

  // --- Loading ---

  absl::Status LoadRank(size_t index, const Schedule& schedule) {
    if (schedule.rank != static_cast<int>(index) || schedule.size != static_cast<int>(ranks_.size())) {
      return absl::InvalidArgumentError(absl::StrCat("this is the schedule of rank ", schedule.rank, " of ",
                                                     schedule.size, ", not of ", index, " of ", ranks_.size()));
    }
    slices_ = schedule.slices;
    blocked_ = HasBlocks(schedule.collective);
    Rank& rank = ranks_[index];
    rank.first_node = static_cast<uint32_t>(nodes_.size());
    rank.steps = static_cast<uint32_t>(schedule.steps.size());
    rank.remaining.resize(window_);
    std::vector<bool> is_peer(ranks_.size());
    for (const Step& step : schedule.steps) {
      const bool message = step.kind == StepKind::kSend || step.kind == StepKind::kRecv;
      nodes_.push_back({.link = message ? static_cast<uint32_t>(step.peer) : step.source_count,
                        .first_successor = static_cast<uint32_t>(successors_.size()),
                        .rank = static_cast<uint16_t>(index),
                        .first = static_cast<uint16_t>(step.operand.first),
                        .count = static_cast<uint16_t>(step.operand.count),
                        .dependencies = static_cast<uint16_t>(step.dependencies),
                        .kind = step.kind,
                        .accumulators = schedule.wide && step.operand.space >= kPlane});
      for (const uint32_t next : schedule.SuccessorsOf(step)) successors_.push_back(rank.first_node + next);
      if (message) is_peer[step.peer] = true;
    }
    rank.peers = static_cast<uint32_t>(std::count(is_peer.begin(), is_peer.end(), true));
    channels_.Add(schedule, rank.first_node);
    return absl::OkStatus();
  }

  // --- Steps and segments ---

  uint16_t& Waiting(const Task& task) { return waiting_[task.node * window_ + task.segment % window_]; }

  void BeginSegments(uint32_t index) {
    Rank& rank = ranks_[index];
    while (rank.next_segment < segments_ && rank.next_segment < rank.oldest_segment + window_) {
      const uint64_t segment = rank.next_segment++;
      rank.remaining[segment % window_] = rank.steps;
      for (uint32_t i = 0; i < rank.steps; ++i) {
        const Task task = {rank.first_node + i, segment};
        Waiting(task) = nodes_[task.node].dependencies;
      }
      for (uint32_t i = 0; i < rank.steps; ++i) {
        const Task task = {rank.first_node + i, segment};
        if (Waiting(task) == 0) MayBegin(task);
      }
      if (rank.steps == 0) rank.oldest_segment = rank.next_segment;
    }
  }

  void MayBegin(const Task& task) {
    const Node& node = nodes_[task.node];
    if (node.kind != StepKind::kRecv || node.arrived > task.segment) AddToThread(task);
  }

  void StepDone(const Task& task) {
    const uint32_t index = nodes_[task.node].rank;
    Rank& rank = ranks_[index];
    for (uint32_t k = nodes_[task.node].first_successor; k < nodes_[task.node + 1].first_successor; ++k) {
      const Task next = {successors_[k], task.segment};
      if (--Waiting(next) == 0) MayBegin(next);
    }
    if (--rank.remaining[task.segment % window_] != 0) return;
    while (rank.oldest_segment < rank.next_segment && rank.remaining[rank.oldest_segment % window_] == 0) {
      ++rank.oldest_segment;
    }
    BeginSegments(index);
  }

  // --- Servers ---

  void Handle(uint32_t rank, Stream stream, const Task& task) {
    switch (stream) {
      case kThread:
        LeaveThread(rank);
        if (nodes_[task.node].kind == StepKind::kSend) {
          PassPortOut(rank, task);
        } else {
          StepDone(task);
        }
        return UseCores();
      case kLeft:
        return StepDone(task);
      case kArriving:
        return PassPortIn({nodes_[task.node].link, task.segment});
      case kArrived: {
        Node& node = nodes_[task.node];
        ++node.arrived;
        if (task.segment < ranks_[rank].next_segment && Waiting(task) == 0) AddToThread(task);
        return;
      }
      case kStreams:
        return;
    }
  }

  void AddToThread(const Task& task) {
    const uint32_t index = nodes_[task.node].rank;
    Rank& rank = ranks_[index];
    rank.tasks.push_back(task);
    if (rank.runs) return;
    rank.runs = true;
    for_cores_.push_back(index);
    UseCores();
  }

  void LeaveThread(uint32_t index) {
    if (costs_.cores != 0) free_cores_.push_back(ranks_[index].core);
    ranks_[index].runs = !ranks_[index].tasks.empty();
    if (ranks_[index].runs) for_cores_.push_back(index);
  }

  void UseCores() {
    const bool own_cores = costs_.cores == 0;
    while ((own_cores || !free_cores_.empty()) && !for_cores_.empty()) {
      const uint32_t index = for_cores_.front();
      for_cores_.pop_front();
      Rank& rank = ranks_[index];
      rank.core = own_cores ? index : TakeCore(index);
      const bool turns = cores_[rank.core] != index && cores_[rank.core] != kNobody;
      cores_[rank.core] = index;
      const Task task = rank.tasks.front();
      rank.tasks.pop_front();
      Push(index, kThread, now_ + (turns ? TurnTime(task) : 0) + ThreadTime(task), task);
    }
  }

  // A free one: where the rank ran last, or else the one that has been free for longest.
  uint32_t TakeCore(uint32_t rank) {
    auto free =
        std::find_if(free_cores_.begin(), free_cores_.end(), [&](uint32_t core) { return cores_[core] == rank; });
    if (free == free_cores_.end()) free = free_cores_.begin();
    const uint32_t core = *free;
    free_cores_.erase(free);
    return core;
  }

  double TurnTime(const Task& task) const {
    return costs_.turn_us + static_cast<double>(Bytes(task)) * costs_.turn_us_per_byte;
  }

  double ThreadTime(const Task& task) const {
    const Node& node = nodes_[task.node];
    const auto bytes = static_cast<double>(Bytes(task));
    switch (node.kind) {
      case StepKind::kSend:
        return costs_.send_overhead_us + bytes * costs_.copy_us_per_byte;
      case StepKind::kRecv:
        return costs_.recv_overhead_us + bytes * costs_.copy_us_per_byte;
      case StepKind::kReduce:
        return bytes * node.link * costs_.reduce_us_per_byte;
      case StepKind::kCopy:
        return bytes * costs_.copy_us_per_byte;
    }
    return 0;
  }

  void PassPortOut(uint32_t index, const Task& task) {
    Rank& rank = ranks_[index];
    const uint64_t bytes = Bytes(task);
    const double begin = std::max(now_, rank.out_free);
    rank.out_free = begin + static_cast<double>(bytes) * costs_.send_us_per_byte;
    ++rank.messages;
    rank.bytes += bytes;
    Push(index, kLeft, rank.out_free, task);
    Push(index, kArriving, begin + costs_.wire_latency_us, task);
  }

  // The first byte is here.
  void PassPortIn(const Task& task) {
    const uint32_t index = nodes_[task.node].rank;
    Rank& rank = ranks_[index];
    const auto bytes = static_cast<double>(Bytes(task));
    const double last_byte = now_ + bytes * costs_.send_us_per_byte;
    rank.in_free = std::max(std::max(now_, rank.in_free) + bytes * costs_.recv_us_per_byte, last_byte);
    Push(index, kArrived, rank.in_free, task);
  }

  void Push(uint32_t rank, Stream stream, double time, const Task& task) {
    const uint32_t index = rank * kStreams + stream;
    if (streams_[index].empty()) heads_.push({time, index});
    streams_[index].push_back({time, task});
  }

  // --- Sizes, as the engine's layout has them ---

  uint64_t Bytes(const Task& task) const {
    const Node& node = nodes_[task.node];
    const uint64_t elements =
        std::min(operation_.segment_count, operation_.count - task.segment * operation_.segment_count);
    const uint64_t part =
        blocked_ ? elements : StartOf(node.first + node.count, elements) - StartOf(node.first, elements);
    return part * (node.accumulators ? operation_.accumulator_bytes : operation_.element_bytes);
  }

  uint64_t StartOf(uint64_t slice, uint64_t elements) const {
    const uint64_t alignment = std::max<uint64_t>(1, kSliceAlignmentBytes / operation_.element_bytes);
    return SliceStart(slice, slices_, elements, alignment);
  }

  const SimulatedOperation operation_;
  const CostModel costs_;
  const uint64_t segments_;
  const uint64_t window_;
  uint64_t slices_ = 1;
  bool blocked_ = false;

  double now_ = 0;
  std::vector<uint32_t> cores_;      // by core: the rank that it ran last
  std::deque<uint32_t> free_cores_;  // the one that has been free for longest first
  std::deque<uint32_t> for_cores_;   // ranks that wait for one
  std::vector<Rank> ranks_;
  std::vector<Node> nodes_;  // and one more, to end the last one's successors
  std::vector<uint32_t> successors_;
  std::vector<uint16_t> waiting_;           // by node, then segment modulo window: for so many nodes
  std::vector<std::deque<Event>> streams_;  // by rank
  std::priority_queue<Head, std::vector<Head>, std::greater<>> heads_;
  Channels channels_;
};

}  // namespace

absl::StatusOr<Prediction> Simulate(int size, absl::FunctionRef<const Schedule&(int rank)> schedule,
                                    const SimulatedOperation& operation, const CostModel& costs) {
  if (size < 1 || size > kSizeMax) return absl::InvalidArgumentError(absl::StrCat("size ", size, " is out of range"));
  if (operation.segment_count == 0 || operation.window == 0 || operation.element_bytes == 0) {
    return absl::InvalidArgumentError("segments, the window and elements must not be empty");
  }
  Simulator simulator(size, operation, costs);
  TUTTI_RETURN_IF_ERROR(simulator.Load(schedule));
  TUTTI_RETURN_IF_ERROR(simulator.Run());
  return simulator.Result();
}

}  // namespace tutti
