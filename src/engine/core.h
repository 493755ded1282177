// Core: runs operations over an endpoint, one step at a time, in whichever thread drives it.
//
// Collectives run one after the other, in the order they were started; sends to one peer do too. Receives run when
// their message is there (mailbox.h). An operation is cut into segments, of which up to kWindow are under way, oldest
// first: a segment begins when the one kWindow before it, and all older ones, are complete. So whoever is behind can
// always take the messages it needs: a message that it cannot take yet comes from a rank that has already sent
// everything older.
//
// Not thread-safe: the engine's progress token says whose turn it is. In a single thread, many cores can be driven in
// turn over a simulated network.

#ifndef TUTTI_SRC_ENGINE_CORE_H_
#define TUTTI_SRC_ENGINE_CORE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/base/pages.h"
#include "src/engine/mailbox.h"
#include "src/engine/operation.h"
#include "src/engine/program.h"
#include "src/observe/journal.h"
#include "src/transport/transport.h"

namespace tutti {

// What went wrong, as one rank sees it. Not yet the verdict.
struct Trouble {
  enum class Kind : uint8_t {
    kPeerLost,
    kMismatch,
    kDiverged,  // ranks have called different things before
    kTimeout,
    kInternal,
  };
  Kind kind = Kind::kInternal;
  int peer = -1;          // kPeerLost
  uint32_t sequence = 0;  // of the collective, 0 if it was none
  absl::Status status;    // this rank's own view
};

class Core final : public MessageSink {
 public:
  static constexpr uint64_t kWindow = 4;

  Core(std::unique_ptr<Endpoint> endpoint, Journal& journal);
  ~Core() = default;

  // Begins the operation, or queues it behind its predecessors; takes over one reference. Never completes it inline.
  void Start(EngineOperation* operation);

  // Moves what can be moved without waiting. True if anything moved.
  bool Progress();

  // Looks for operations past their deadline.
  void CheckDeadlines(absl::Time now);
  absl::Time NextDeadline() const;

  // Set once something has gone wrong: nothing moves from then on, until Fail.
  const std::optional<Trouble>& trouble() const { return trouble_; }
  // Closes the endpoint, then completes everything in flight with the status.
  void Fail(const absl::Status& status);

  bool idle() const { return pending_.empty(); }
  uint64_t completed() const { return completed_; }  // operations so far
  Endpoint* endpoint() { return endpoint_.get(); }   // null after Fail

 private:
  // One segment under way.
  struct Run {
    size_t index = 0;                      // in runs_
    EngineOperation* operation = nullptr;  // null: not in use
    uint64_t segment = 0;
    std::byte* scratch = nullptr;
    uint32_t remaining = 0;         // steps
    std::vector<uint32_t> waiting;  // by step: dependencies left; kTaken once its message has been taken
  };
  static constexpr uint32_t kTaken = UINT32_MAX;

  // Operations that run one after the other.
  struct Lane {
    EngineOperation* active = nullptr;
    std::deque<EngineOperation*> queue;
    uint32_t sequence = 0;  // of the latest send
  };

  // MessageSink:
  Delivery Arrived(int peer, Channel channel, const MessageTag& tag, uint64_t bytes) override;
  void Received(int peer, Channel channel, const MessageTag& tag) override;
  void Sent(uint64_t cookie) override;
  void PeerLost(int peer, absl::Status why) override;
  void Reduced() override;
  void Disagrees(int peer, bool before) override;

  Lane* LaneOf(const EngineOperation& operation);
  void StartReceive(EngineOperation* operation);
  void ExpectFrom(int peer, int64_t count);
  EngineOperation* BindPosted(int peer, const MessageTag& tag);
  void Bind(EngineOperation* receive, int peer, const MessageTag& tag);
  Delivery Deliver(EngineOperation* operation, int peer, const MessageTag& tag, uint64_t bytes);
  Delivery TakeEarly(int peer, const MessageTag& tag, uint64_t bytes);
  void DeliverEarly(Run& run);
  void ExpectMessages(const EngineOperation& operation, uint64_t segment);
  void Activate(EngineOperation* operation);
  void BeginShared(const EngineOperation& operation);
  void BeginSegments(EngineOperation* operation);
  Run& FreeRun();
  Run* FindRun(const EngineOperation* operation, uint64_t segment);
  void BeginSegment(EngineOperation* operation, uint64_t segment);
  void RunReady(Run& run);
  bool Execute(Run& run, uint32_t step_index);  // true: the step is done at once
  void Reduce(const Run& run, const Step& step);
  void Copy(const Run& run, const Step& step);
  void StepDone(Run& run, uint32_t step_index);
  void SegmentDone(Run& run);
  bool Advance();
  void Finish(EngineOperation* operation, const absl::Status& status);
  Delivery Mismatched(const EngineOperation& operation, int peer, const MessageTag& tag);
  Delivery DifferentBlocks(const EngineOperation& operation, const Step& step, uint64_t block_bytes);
  Delivery Unexpected(int peer, const MessageTag& tag, uint64_t bytes);
  void Report(Trouble trouble);

  Journal& journal_;
  std::unique_ptr<Endpoint> endpoint_;
  ProgramCache programs_;
  Lane collectives_;
  std::map<int, Lane> sends_;  // by peer
  Mailbox mailbox_;
  std::vector<EngineOperation*> pending_;
  std::vector<EngineOperation*> advanced_;  // with segments that became complete; each once
  std::vector<std::unique_ptr<Run>> runs_;
  std::vector<uint32_t> ready_;       // steps of the run at hand
  std::vector<const void*> sources_;  // of the reduction at hand
  Pages scratch_;
  std::optional<Trouble> trouble_;
  uint64_t completed_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_SRC_ENGINE_CORE_H_
