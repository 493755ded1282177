#include "src/engine/core.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

uint64_t Cookie(size_t run, uint32_t step) { return uint64_t{run} << 32 | step; }

DataType PlaneType(const EngineOperation& operation) {
  return operation.wide ? AccumulatorType(operation.descriptor.type, operation.descriptor.op)
                        : operation.descriptor.type;
}

}  // namespace

Core::Core(std::unique_ptr<Endpoint> endpoint, Journal& journal) : journal_(journal), endpoint_(std::move(endpoint)) {}

Core::Lane& Core::LaneOf(const EngineOperation& operation) {
  if (operation.channel == Channel::kCollective) return collectives_;
  return pairs_[{operation.descriptor.collective, operation.peer}];
}

Core::Lane* Core::ReceivingLane(int peer, Channel channel) {
  if (channel == Channel::kCollective) return &collectives_;
  const auto found = pairs_.find({Collective::kRecv, peer});
  return found == pairs_.end() ? nullptr : &found->second;
}

void Core::Start(EngineOperation* operation) {
  operation->pending_index = pending_.size();
  pending_.push_back(operation);
  Lane& lane = LaneOf(*operation);
  if (operation->channel == Channel::kPointToPoint) operation->sequence = ++lane.sequence;
  if (lane.active != nullptr) {
    lane.queue.push_back(operation);
  } else {
    lane.active = operation;
    Activate(operation);
  }
}

void Core::Activate(EngineOperation* operation) {
  if (trouble_.has_value()) return;
  const OperationDescriptor& descriptor = operation->descriptor;
  absl::StatusOr<const Program*> program = programs_.Get({.collective = descriptor.collective,
                                                          .algorithm = descriptor.algorithm,
                                                          .size = endpoint_->size(),
                                                          .rank = endpoint_->rank(),
                                                          .root = descriptor.root,
                                                          .wide = operation->wide});
  if (!program.ok()) return Report({.kind = Trouble::Kind::kInternal, .status = program.status()});
  operation->program = *program;
  operation->next_segment = 0;
  operation->oldest_segment = 0;
  operation->finished = 0;
  operation->advanced = false;
  operation->layout.Bind((*program)->schedule, operation->input, operation->output, descriptor.count,
                         descriptor.segment_bytes / ByteSize(descriptor.type), ByteSize(descriptor.type),
                         ByteSize(PlaneType(*operation)));
  const size_t scratch_bytes =
      operation->layout.scratch_bytes() * std::min<uint64_t>(kWindow, operation->layout.segments());
  if (scratch_bytes > scratch_.bytes()) {
    scratch_ = Pages();  // first, so that both need not fit at once
    absl::StatusOr<Pages> larger = Pages::Map(scratch_bytes);
    if (!larger.ok()) return Report({.kind = Trouble::Kind::kInternal, .status = larger.status()});
    scratch_ = *std::move(larger);
  }
  BeginSegments(operation);
}

void Core::BeginSegments(EngineOperation* operation) {
  while (operation->next_segment < operation->layout.segments() &&
         operation->next_segment < operation->oldest_segment + kWindow && !trouble_.has_value()) {
    BeginSegment(operation, operation->next_segment++);
  }
}

Core::Run& Core::FreeRun() {
  for (const std::unique_ptr<Run>& run : runs_) {
    if (run->operation == nullptr) return *run;
  }
  runs_.push_back(std::make_unique<Run>());
  runs_.back()->index = runs_.size() - 1;
  return *runs_.back();
}

Core::Run* Core::FindRun(const EngineOperation* operation, uint64_t segment) {
  for (const std::unique_ptr<Run>& run : runs_) {
    if (run->operation == operation && run->segment == segment) return run.get();
  }
  return nullptr;
}

void Core::BeginSegment(EngineOperation* operation, uint64_t segment) {
  const Program& program = *operation->program;
  Run& run = FreeRun();
  run.operation = operation;
  run.segment = segment;
  run.scratch = scratch_.data() + segment % kWindow * operation->layout.scratch_bytes();
  run.remaining = static_cast<uint32_t>(program.schedule.steps.size());
  run.waiting.assign(program.dependencies.begin(), program.dependencies.end());
  for (const Program::Source& source : program.receives) {
    endpoint_->Expect(source.peer, operation->channel, static_cast<uint32_t>(source.steps.size()));
  }
  if (run.remaining == 0) return SegmentDone(run);
  ready_.assign(program.initial.begin(), program.initial.end());
  RunReady(run);
}

// Runs the steps in ready_, and those that become ready by it.
void Core::RunReady(Run& run) {
  for (size_t next = 0; next < ready_.size(); ++next) {
    if (Execute(run, ready_[next])) StepDone(run, ready_[next]);
  }
  ready_.clear();
  if (run.remaining == 0) SegmentDone(run);
}

bool Core::Execute(Run& run, uint32_t step_index) {
  const EngineOperation& operation = *run.operation;
  const Step& step = operation.program->schedule.steps[step_index];
  switch (step.kind) {
    case StepKind::kSend: {
      const Layout::Range range = operation.layout.Locate(step.operand, run.segment, run.scratch);
      const MessageTag tag = {.fingerprint = operation.fingerprint,
                              .sequence = operation.sequence,
                              .segment = static_cast<uint32_t>(run.segment),
                              .ordinal = operation.program->ordinals[step_index]};
      endpoint_->Send(step.peer, operation.channel, tag, range.data, range.bytes, Cookie(run.index, step_index));
      return false;
    }
    case StepKind::kRecv:
      return false;  // done when the message is in place
    case StepKind::kReduce:
      Reduce(run, step);
      return true;
    case StepKind::kCopy:
      Copy(run, step);
      return true;
  }
  return true;
}

void Core::Reduce(const Run& run, const Step& step) {
  const EngineOperation& operation = *run.operation;
  const Layout::Range to = operation.layout.Locate(step.operand, run.segment, run.scratch);
  sources_.clear();
  for (const Operand& source : operation.program->schedule.SourcesOf(step)) {
    sources_.push_back(operation.layout.Locate(source, run.segment, run.scratch).data);
  }
  const ReduceFunction reduce = operation.wide ? operation.kernels.reduce_partial : operation.kernels.reduce;
  reduce(to.data, sources_.data(), sources_.size(), to.count, step.final ? operation.descriptor.divisor : 1.0);
}

void Core::Copy(const Run& run, const Step& step) {
  const EngineOperation& operation = *run.operation;
  const Operand& source = operation.program->schedule.SourcesOf(step)[0];
  const Layout::Range from = operation.layout.Locate(source, run.segment, run.scratch);
  const Layout::Range to = operation.layout.Locate(step.operand, run.segment, run.scratch);
  const double divisor = step.final ? operation.descriptor.divisor : 1.0;
  const bool widen = operation.wide && source.space < kPlane && step.operand.space >= kPlane;
  const bool narrow = operation.wide && source.space >= kPlane && step.operand.space < kPlane;
  if (widen) {
    operation.kernels.widen(to.data, from.data, to.count, divisor);
  } else if (narrow) {
    operation.kernels.narrow(to.data, from.data, to.count, divisor);
  } else if (step.final && operation.kernels.reduce != nullptr) {
    const void* one = from.data;
    operation.kernels.reduce(to.data, &one, 1, to.count, divisor);
  } else if (to.data != from.data) {
    std::memcpy(to.data, from.data, to.bytes);
  }
}

void Core::StepDone(Run& run, uint32_t step_index) {
  const Schedule& schedule = run.operation->program->schedule;
  for (const uint32_t successor : schedule.SuccessorsOf(schedule.steps[step_index])) {
    if (--run.waiting[successor] == 0) ready_.push_back(successor);
  }
  --run.remaining;
}

void Core::SegmentDone(Run& run) {
  EngineOperation* operation = run.operation;
  run.operation = nullptr;
  operation->finished |= uint64_t{1} << (run.segment - operation->oldest_segment);
  while ((operation->finished & 1) != 0) {
    operation->finished >>= 1;
    ++operation->oldest_segment;
  }
  if (!std::exchange(operation->advanced, true)) advanced_.push_back(operation);
}

bool Core::Progress() {
  if (trouble_.has_value() || endpoint_ == nullptr) return false;
  const bool moved = endpoint_->Poll(*this);
  return Advance() || moved;
}

// Begins what became possible because segments are complete: later segments, or the next operation of a lane.
bool Core::Advance() {
  bool advanced = false;
  while (!advanced_.empty() && !trouble_.has_value()) {
    EngineOperation* operation = advanced_.back();
    advanced_.pop_back();
    operation->advanced = false;
    advanced = true;
    if (operation->oldest_segment < operation->layout.segments()) {
      BeginSegments(operation);
      continue;
    }
    Lane& lane = LaneOf(*operation);
    lane.active = nullptr;
    if (!lane.queue.empty()) {
      lane.active = lane.queue.front();
      lane.queue.pop_front();
      Activate(lane.active);
    }
    Finish(operation, absl::OkStatus());
  }
  return advanced;
}

void Core::Finish(EngineOperation* operation, const absl::Status& status) {
  pending_.back()->pending_index = operation->pending_index;
  std::swap(pending_[operation->pending_index], pending_.back());
  pending_.pop_back();
  if (operation->channel == Channel::kCollective) journal_.End(operation->sequence);
  ++completed_;
  operation->Complete(status);
  operation->Unref();
}

MessageSink::Delivery Core::Arrived(int peer, Channel channel, const MessageTag& tag, uint64_t bytes) {
  if (trouble_.has_value()) return {.verdict = Verdict::kRefuse};
  const Lane* lane = ReceivingLane(peer, channel);
  const EngineOperation* operation = lane == nullptr ? nullptr : lane->active;
  if (operation == nullptr || tag.sequence > operation->sequence) return {.verdict = Verdict::kLater};
  if (tag.sequence < operation->sequence || tag.fingerprint != operation->fingerprint) {
    Report({.kind = Trouble::Kind::kMismatch,
            .peer = peer,
            .sequence = channel == Channel::kCollective ? tag.sequence : 0,
            .status = absl::FailedPreconditionError(absl::StrCat(
                "rank ", peer, " called something else than this rank (rank ", endpoint_->rank(), "), which called ",
                ToString(operation->descriptor), " as operation ", operation->sequence))});
    return {.verdict = Verdict::kRefuse};
  }
  Run* run = FindRun(operation, tag.segment);
  if (run == nullptr) {
    if (tag.segment >= operation->next_segment && tag.segment < operation->layout.segments()) {
      return {.verdict = Verdict::kLater};
    }
    return Unexpected(peer, tag, bytes);
  }
  const int64_t step_index = operation->program->ReceiveStep(peer, tag.ordinal);
  if (step_index < 0 || run->waiting[step_index] == kTaken) return Unexpected(peer, tag, bytes);
  if (run->waiting[step_index] != 0) return {.verdict = Verdict::kLater};
  const Step& step = operation->program->schedule.steps[step_index];
  const Layout::Range range = operation->layout.Locate(step.operand, run->segment, run->scratch);
  if (range.bytes != bytes) return Unexpected(peer, tag, bytes);
  run->waiting[step_index] = kTaken;
  return {.verdict = Verdict::kTake, .destination = range.data};
}

MessageSink::Delivery Core::Unexpected(int peer, const MessageTag& tag, uint64_t bytes) {
  Report({.kind = Trouble::Kind::kInternal,
          .peer = peer,
          .sequence = tag.sequence,
          .status =
              absl::InternalError(absl::StrCat("rank ", peer, " sent a message of ", bytes, " bytes (operation ",
                                               tag.sequence, ", segment ", tag.segment, ", message ", tag.ordinal,
                                               ") that the schedule of rank ", endpoint_->rank(), " does not have"))});
  return {.verdict = Verdict::kRefuse};
}

void Core::Received(int peer, Channel channel, const MessageTag& tag) {
  const EngineOperation* operation = ReceivingLane(peer, channel)->active;
  Run& run = *FindRun(operation, tag.segment);
  StepDone(run, static_cast<uint32_t>(operation->program->ReceiveStep(peer, tag.ordinal)));
  RunReady(run);
}

void Core::Sent(uint64_t cookie) {
  Run& run = *runs_[cookie >> 32];
  StepDone(run, static_cast<uint32_t>(cookie));
  RunReady(run);
}

void Core::PeerLost(int peer, absl::Status why) {
  const EngineOperation* operation = collectives_.active;
  Report({.kind = Trouble::Kind::kPeerLost,
          .peer = peer,
          .sequence = operation == nullptr ? 0 : operation->sequence,
          .status = std::move(why)});
}

void Core::CheckDeadlines(absl::Time now) {
  for (const EngineOperation* operation : pending_) {
    if (operation->deadline > now) continue;
    const bool collective = operation->channel == Channel::kCollective;
    Report(
        {.kind = Trouble::Kind::kTimeout,
         .peer = operation->peer,
         .sequence = collective ? operation->sequence : 0,
         .status = absl::DeadlineExceededError(absl::StrCat(
             ToString(operation->descriptor), collective ? absl::StrCat(" (operation ", operation->sequence, ")") : "",
             " on rank ", endpoint_->rank(), " has not ended within ",
             absl::FormatDuration(operation->deadline - operation->issued)))});
    return;
  }
}

absl::Time Core::NextDeadline() const {
  absl::Time next = absl::InfiniteFuture();
  for (const EngineOperation* operation : pending_) next = std::min(next, operation->deadline);
  return next;
}

void Core::Report(Trouble trouble) {
  if (!trouble_.has_value()) trouble_ = std::move(trouble);
}

void Core::Fail(const absl::Status& status) {
  if (!trouble_.has_value()) trouble_ = Trouble{.status = status};
  endpoint_.reset();  // from here on nothing touches the operations' memory
  advanced_.clear();
  while (!pending_.empty()) Finish(pending_.back(), status);
}

}  // namespace tutti
