#include "src/engine/core.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

uint64_t Cookie(size_t run, uint32_t step) { return uint64_t{run} << 32 | step; }

int RootOf(const EngineOperation& operation) {
  return operation.channel == Channel::kPointToPoint ? operation.peer : operation.descriptor.root;
}

DataType PlaneType(const EngineOperation& operation) {
  return operation.wide ? AccumulatorType(operation.descriptor.type, operation.descriptor.op)
                        : operation.descriptor.type;
}

}  // namespace

Core::Core(std::unique_ptr<Endpoint> endpoint, Journal& journal) : journal_(journal), endpoint_(std::move(endpoint)) {}

// Null for receives.
Core::Lane* Core::LaneOf(const EngineOperation& operation) {
  if (operation.channel == Channel::kCollective) return &collectives_;
  return operation.descriptor.collective == Collective::kSend ? &sends_[operation.peer] : nullptr;
}

void Core::Start(EngineOperation* operation) {
  operation->pending_index = pending_.size();
  pending_.push_back(operation);
  Lane* const lane = LaneOf(*operation);
  if (lane == nullptr) return StartReceive(operation);
  if (operation->channel == Channel::kPointToPoint) operation->sequence = ++lane->sequence;
  if (lane->active != nullptr) {
    lane->queue.push_back(operation);
  } else {
    lane->active = operation;
    Activate(operation);
  }
}

void Core::StartReceive(EngineOperation* operation) {
  if (trouble_.has_value()) return;
  if (const Mailbox::Early* early = mailbox_.OldestEarly(operation->peer, operation->label)) {
    return Bind(operation, early->peer, early->tag);
  }
  mailbox_.Post(operation);
  ExpectFrom(operation->peer, 1);
}

// Point to point.
void Core::ExpectFrom(int peer, int64_t count) {
  if (peer != kAnyPeer) return endpoint_->Expect(peer, Channel::kPointToPoint, count);
  for (int each = 0; each < endpoint_->size(); ++each) {
    if (each != endpoint_->rank()) endpoint_->Expect(each, Channel::kPointToPoint, count);
  }
}

// Null if no posted receive may take it.
EngineOperation* Core::BindPosted(int peer, const MessageTag& tag) {
  EngineOperation* const receive = mailbox_.TakePosted(peer, tag.ordinal);
  if (receive == nullptr) return nullptr;
  ExpectFrom(receive->peer, -1);  // BeginSegment expects what it gets
  Bind(receive, peer, tag);
  return receive;
}

// The receive gets the message, of which the first segment has this tag. Nothing is expected for it any more.
void Core::Bind(EngineOperation* receive, int peer, const MessageTag& tag) {
  mailbox_.Bind(receive, peer, tag.sequence);
  if (tag.fingerprint != receive->fingerprint) {
    Mismatched(*receive, peer, tag);
  } else {
    Activate(receive);
  }
}

void Core::Activate(EngineOperation* operation) {
  if (trouble_.has_value()) return;
  const OperationDescriptor& descriptor = operation->descriptor;
  if (descriptor.algorithm == Algorithm::kShared) return BeginShared(*operation);
  absl::StatusOr<const Program*> program = programs_.Get({.collective = descriptor.collective,
                                                          .algorithm = descriptor.algorithm,
                                                          .size = endpoint_->size(),
                                                          .rank = endpoint_->rank(),
                                                          .root = RootOf(*operation),
                                                          .wide = operation->wide,
                                                          .ranks_per_host = operation->ranks_per_host});
  if (!program.ok()) return Report({.kind = Trouble::Kind::kInternal, .status = program.status()});
  if (operation->channel == Channel::kCollective && endpoint_->shared_memory() != nullptr) {
    endpoint_->shared_memory()->BeginOther(operation->sequence);
  }
  operation->program = *program;
  operation->next_segment = 0;
  operation->oldest_segment = 0;
  operation->finished = 0;
  operation->advanced = false;
  operation->layout.Bind((*program)->schedule,
                         {.input = operation->input,
                          .output = operation->output,
                          .count = descriptor.count,
                          .input_counts = operation->input_counts,
                          .output_counts = operation->output_counts},
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

void Core::BeginShared(const EngineOperation& operation) {
  endpoint_->shared_memory()->BeginReduction({.fingerprint = operation.fingerprint,
                                              .history = operation.history,
                                              .sequence = operation.sequence,
                                              .input = operation.input,
                                              .output = operation.output,
                                              .count = operation.descriptor.count,
                                              .element_bytes = ByteSize(operation.descriptor.type),
                                              .reduce = operation.kernels.reduce,
                                              .divisor = operation.descriptor.divisor});
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
  ExpectMessages(*operation, segment);
  ready_.assign(program.initial.begin(), program.initial.end());
  RunReady(run);
  if (operation->descriptor.collective == Collective::kRecv) DeliverEarly(run);
}

void Core::ExpectMessages(const EngineOperation& operation, uint64_t segment) {
  const std::vector<Step>& steps = operation.program->schedule.steps;
  for (const Program::Source& source : operation.program->receives) {
    auto count = static_cast<int64_t>(source.steps.size());
    if (operation.descriptor.uneven) {
      count = std::count_if(source.steps.begin(), source.steps.end(),
                            [&](uint32_t step) { return !operation.layout.Omits(steps[step].operand, segment); });
    }
    const bool here = operation.channel == Channel::kPointToPoint &&
                      mailbox_.FindEarly(source.peer, operation.sequence, static_cast<uint32_t>(segment)) != nullptr;
    if (!here) endpoint_->Expect(source.peer, operation.channel, count);
  }
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
      if (operation.layout.Omits(step.operand, run.segment)) return true;
      const Layout::Range range = operation.layout.Locate(step.operand, run.segment, run.scratch);
      const MessageTag tag = {.fingerprint = operation.fingerprint,
                              .sequence = operation.sequence,
                              .segment = static_cast<uint32_t>(run.segment),
                              .ordinal = operation.channel == Channel::kPointToPoint
                                             ? operation.label
                                             : operation.program->ordinals[step_index],
                              .block_bytes = operation.layout.BlockBytes(step.operand)};
      endpoint_->Send(step.peer, operation.channel, tag, range.data, range.bytes, Cookie(run.index, step_index));
      return false;
    }
    case StepKind::kRecv:
      // Otherwise done when the message is in place.
      return operation.layout.Omits(step.operand, run.segment);
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
  } else if (to.data != from.data && to.bytes > 0) {
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
    if (operation->descriptor.algorithm != Algorithm::kShared &&
        operation->oldest_segment < operation->layout.segments()) {
      BeginSegments(operation);
      continue;
    }
    Lane* const lane = LaneOf(*operation);
    if (lane == nullptr) {
      mailbox_.Unbind(operation);
    } else {
      lane->active = nullptr;
    }
    if (lane != nullptr && !lane->queue.empty()) {
      lane->active = lane->queue.front();
      lane->queue.pop_front();
      Activate(lane->active);
    }
    Finish(operation, absl::OkStatus());
  }
  return advanced;
}

void Core::Finish(EngineOperation* operation, const absl::Status& status) {
  pending_.back()->pending_index = operation->pending_index;
  std::swap(pending_[operation->pending_index], pending_.back());
  pending_.pop_back();
  if (operation->channel == Channel::kCollective && status.ok()) journal_.End(operation->sequence);
  ++completed_;
  operation->Complete(status);
  if (operation->batch != nullptr) operation->batch->MemberDone(status);
  operation->Unref();
}

MessageSink::Delivery Core::Arrived(int peer, Channel channel, const MessageTag& tag, uint64_t bytes) {
  if (trouble_.has_value()) return {.verdict = Verdict::kRefuse};
  if (channel == Channel::kPointToPoint) {
    EngineOperation* receive = mailbox_.FindBound(peer, tag.sequence);
    if (receive == nullptr && tag.segment == 0) receive = BindPosted(peer, tag);
    if (trouble_.has_value()) return {.verdict = Verdict::kRefuse};
    return receive != nullptr ? Deliver(receive, peer, tag, bytes) : TakeEarly(peer, tag, bytes);
  }
  EngineOperation* operation = collectives_.active;
  if (operation == nullptr || tag.sequence > operation->sequence) return {.verdict = Verdict::kLater};
  if (tag.sequence < operation->sequence || tag.fingerprint != operation->fingerprint) {
    return Mismatched(*operation, peer, tag);
  }
  return Deliver(operation, peer, tag, bytes);
}

// The message is one of the operation's.
MessageSink::Delivery Core::Deliver(EngineOperation* operation, int peer, const MessageTag& tag, uint64_t bytes) {
  Run* run = FindRun(operation, tag.segment);
  if (run == nullptr) {
    if (tag.segment >= operation->next_segment && tag.segment < operation->layout.segments()) {
      return {.verdict = Verdict::kLater};
    }
    return Unexpected(peer, tag, bytes);
  }
  const bool pair = operation->channel == Channel::kPointToPoint;
  const int64_t step_index = operation->program->ReceiveStep(peer, pair ? 0 : tag.ordinal);
  if (step_index < 0 || run->waiting[step_index] == kTaken) return Unexpected(peer, tag, bytes);
  const Step& step = operation->program->schedule.steps[step_index];
  if (tag.block_bytes != operation->layout.BlockBytes(step.operand)) {
    return DifferentBlocks(*operation, step, tag.block_bytes);
  }
  if (run->waiting[step_index] != 0) return {.verdict = Verdict::kLater};
  const Layout::Range range = operation->layout.Locate(step.operand, run->segment, run->scratch);
  if (range.bytes != bytes) return Unexpected(peer, tag, bytes);
  run->waiting[step_index] = kTaken;
  return {.verdict = Verdict::kTake, .destination = range.data};
}

// No receive may have it. It is in the way of what others wait for, or of its own further segments.
MessageSink::Delivery Core::TakeEarly(int peer, const MessageTag& tag, uint64_t bytes) {
  if (!mailbox_.IsAwaited(peer)) return {.verdict = Verdict::kLater};
  Mailbox::Early* early = mailbox_.TakeEarly(peer, tag, bytes);
  if (early == nullptr) {
    Report({.kind = Trouble::Kind::kInternal,
            .peer = peer,
            .status = absl::ResourceExhaustedError(absl::StrCat(
                "rank ", endpoint_->rank(), " waits for ", ToString(mailbox_.AnyPosted().descriptor), " with tag ",
                mailbox_.AnyPosted().label, ", but rank ", peer, " first sends ", mailbox_.early_bytes() + bytes,
                " bytes with other tags (", tag.ordinal,
                " is next): receive them in the order in which they are sent, or issue their receives earlier"))});
    return {.verdict = Verdict::kRefuse};
  }
  endpoint_->Expect(peer, Channel::kPointToPoint, 1);  // in place of this one
  return {.verdict = Verdict::kTake, .destination = early->payload.get()};
}

// The run's message, if it has come early.
void Core::DeliverEarly(Run& run) {
  const EngineOperation& receive = *run.operation;
  const Mailbox::Early* early = mailbox_.FindEarly(receive.peer, receive.sequence, static_cast<uint32_t>(run.segment));
  if (early == nullptr || !early->complete) return;
  const uint32_t step_index = receive.program->receives[0].steps[0];
  const Step& step = receive.program->schedule.steps[step_index];
  const Layout::Range range = receive.layout.Locate(step.operand, run.segment, run.scratch);
  if (range.bytes != early->bytes) {
    Unexpected(receive.peer, early->tag, early->bytes);
    return;
  }
  if (range.bytes > 0) std::memcpy(range.data, early->payload.get(), range.bytes);
  mailbox_.Drop(early);
  StepDone(run, step_index);
  RunReady(run);
}

MessageSink::Delivery Core::Mismatched(const EngineOperation& operation, int peer, const MessageTag& tag) {
  const bool collective = operation.channel == Channel::kCollective;
  Report({.kind = Trouble::Kind::kMismatch,
          .peer = peer,
          .sequence = collective ? tag.sequence : 0,
          .status = absl::FailedPreconditionError(
              absl::StrCat("rank ", peer, " called something else than this rank (rank ", endpoint_->rank(),
                           "), which called ", ToString(operation.descriptor),
                           collective ? absl::StrCat(" as operation ", operation.sequence)
                                      : absl::StrCat(" with tag ", operation.label)))});
  return {.verdict = Verdict::kRefuse};
}

MessageSink::Delivery Core::DifferentBlocks(const EngineOperation& operation, const Step& step, uint64_t block_bytes) {
  Report({.kind = Trouble::Kind::kInternal,
          .peer = step.peer,
          .sequence = operation.sequence,
          .status = absl::FailedPreconditionError(
              absl::StrCat(ToString(operation.descriptor), " (operation ", operation.sequence, "): rank ", step.peer,
                           " sends ", block_bytes, " bytes to rank ", endpoint_->rank(), ", which expects ",
                           operation.layout.BlockBytes(step.operand), " from it: their counts must agree"))});
  return {.verdict = Verdict::kRefuse};
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
  const bool pair = channel == Channel::kPointToPoint;
  EngineOperation* const operation = pair ? mailbox_.FindBound(peer, tag.sequence) : collectives_.active;
  Run* const run = operation == nullptr ? nullptr : FindRun(operation, tag.segment);
  Mailbox::Early* const early = pair ? mailbox_.FindEarly(peer, tag.sequence, tag.segment) : nullptr;
  if (early != nullptr) {
    early->complete = true;
    if (run != nullptr) DeliverEarly(*run);
    return;
  }
  // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a message that was taken, and not early, has a run.
  StepDone(*run, static_cast<uint32_t>(operation->program->ReceiveStep(peer, pair ? 0 : tag.ordinal)));
  RunReady(*run);
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

void Core::Reduced() { advanced_.push_back(collectives_.active); }

void Core::Disagrees(int peer, bool before) {
  const EngineOperation& operation = *collectives_.active;
  if (!before) {
    Mismatched(operation, peer, {.sequence = operation.sequence});
    return;
  }
  Report({.kind = Trouble::Kind::kDiverged,
          .peer = peer,
          .sequence = operation.sequence,
          .status = absl::FailedPreconditionError(
              absl::StrCat("rank ", peer, " has called other collectives than this rank (rank ", endpoint_->rank(),
                           ") before operation ", operation.sequence, ", ", ToString(operation.descriptor)))});
}

void Core::CheckDeadlines(absl::Time now) {
  for (EngineOperation* operation : pending_) {
    if (operation->deadline == kNoDeadlineYet) operation->deadline = now + operation->timeout;
    if (operation->deadline > now) continue;
    const bool collective = operation->channel == Channel::kCollective;
    Report(
        {.kind = Trouble::Kind::kTimeout,
         .peer = operation->peer,
         .sequence = collective ? operation->sequence : 0,
         .status = absl::DeadlineExceededError(absl::StrCat(
             ToString(operation->descriptor), collective ? absl::StrCat(" (operation ", operation->sequence, ")") : "",
             " on rank ", endpoint_->rank(), " has not ended within ", absl::FormatDuration(operation->timeout)))});
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
  mailbox_.Clear();
  while (!pending_.empty()) Finish(pending_.back(), status);
}

}  // namespace tutti
