// How it works.
//
// The schedules are looked at one rank at a time (RankCheck) and packed into one array of nodes, one a step, of all
// ranks. A send and the receive that it matches are two nodes which run together, when both have all they wait for: so
// nothing is ever buffered. Running everything in any order is enough, since no two steps whose order would matter are
// unordered. If nothing can run any more, all has run, or there is a deadlock.
//
// Every slice of every memory holds a value: an expression over ranks, the same number for the same expression. A step
// never moves data from one slice to another, which is checked, so slices need not show in the expressions.
//
// Where the schedules look alike from every rank (rotation.h), rank 0's is enough: what it does all ranks do at once,
// and a message from rank p is what rank 0 sends to rank n - p, turned by p ranks. All that is checked here turns
// along. A deadlock of all ranks would be one of rank 0 with itself, since a circle of steps that wait for one another
// stays one if their ranks are forgotten. If this finds a fault, all ranks are looked at, to say where it is.
//
// Values are those of an operation that is not in place. RankCheck looks at it in place, and refuses a step that reads
// the input where the output may have overwritten it; so every step reads the same in place.

#include "src/schedule/verifier.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "src/base/status_macros.h"
#include "src/schedule/builders.h"
#include "src/schedule/canonical_tree.h"
#include "src/schedule/channels.h"
#include "src/schedule/expressions.h"
#include "src/schedule/rank_check.h"
#include "src/schedule/rotation.h"

namespace tutti {
namespace {

struct Node {
  uint32_t cell = 0;             // first one of the operand
  uint32_t link = 0;             // message: the peer, and then the peer's node; else: first source in sources_
  uint32_t first_successor = 0;  // in successors_; the next node's ends them
  uint16_t first = 0;            // slice
  uint16_t count = 0;            // of slices
  uint16_t waiting = 0;          // for so many nodes
  uint16_t depth = 0;            // messages on the longest way to it
  StepKind kind = StepKind::kSend;
  bool final : 1 = false;
  bool accumulators : 1 = false;  // the operand holds them
  bool ready : 1 = false;         // but a message may still wait for its other side
  bool done : 1 = false;
};

bool IsMessage(const Node& node) { return node.kind == StepKind::kSend || node.kind == StepKind::kRecv; }

class Verifier {
 public:
  // Loads so many ranks: all of them, or only rank 0, which all look like.
  Verifier(int size, int loaded, absl::FunctionRef<const Schedule&(int rank)> schedule)
      : size_(size), loaded_(loaded), schedule_(schedule), expressions_(static_cast<uint32_t>(size)), channels_(size) {}

  absl::Status Verify() {
    for (int rank = 0; rank < loaded_; ++rank) TUTTI_RETURN_IF_ERROR(Load(rank));
    ranks_.push_back({.first_node = NodeCount(), .first_cell = static_cast<uint32_t>(values_.size())});
    nodes_.push_back({.first_successor = static_cast<uint32_t>(successors_.size())});
    if (IsOneForAll()) turns_.resize(nodes_.size());
    for (int rank = 0; rank < loaded_; ++rank) TUTTI_RETURN_IF_ERROR(MatchReceives(rank));
    TUTTI_RETURN_IF_ERROR(CheckAllMatched());
    if (head_.collective == Collective::kBarrier) BeginNews();
    TUTTI_RETURN_IF_ERROR(Run());
    TUTTI_RETURN_IF_ERROR(CheckAllDone());
    return head_.collective == Collective::kBarrier ? CheckNews() : CheckOutputs();
  }

  ScheduleCounts Counts() const {
    ScheduleCounts counts = counts_;
    for (const Node& node : nodes_) counts.depth = std::max<uint32_t>(counts.depth, node.depth);
    return counts;
  }

 private:
  struct Rank {
    uint32_t first_node = 0;
    uint32_t first_cell = 0;
    uint32_t slices = 0;
    Plane output = {};  // the slices of it that exist
    Collective collective = Collective::kBarrier;
    int root = 0;
  };

  // Rank 0's schedule stands for those of all ranks.
  bool IsOneForAll() const { return loaded_ < size_; }

  uint32_t NodeCount() const { return static_cast<uint32_t>(nodes_.size()); }

  // --- Loading ---

  absl::Status Load(int rank) {
    const Schedule& schedule = schedule_(rank);
    TUTTI_RETURN_IF_ERROR(CheckHead(schedule, rank));
    TUTTI_RETURN_IF_ERROR(rank_check_.Check(schedule));
    for (size_t i = 0; i < schedule.steps.size(); ++i) {
      if (schedule.steps[i].dependencies > UINT16_MAX) return StepError(schedule, i, "too many dependencies");
    }
    const CellNumbering numbering(schedule, /*in_place=*/false);
    if (rank == 0) Reserve(schedule, numbering);
    const Rank info = {.first_node = NodeCount(),
                       .first_cell = static_cast<uint32_t>(values_.size()),
                       .slices = schedule.slices,
                       .output = SlicesHeld(schedule, kOutput),
                       .collective = schedule.collective,
                       .root = schedule.root};
    ranks_.push_back(info);
    for (const Step& step : schedule.steps) AddNode(schedule, numbering, info, step);
    channels_.Add(schedule, info.first_node);
    Count(schedule);
    values_.resize(values_.size() + numbering.count());
    SetInputs(schedule, info);
    return absl::OkStatus();
  }

  // As if all ranks were like the first.
  void Reserve(const Schedule& schedule, const CellNumbering& numbering) {
    const size_t ranks = static_cast<size_t>(loaded_);
    ranks_.reserve(ranks + 1);
    nodes_.reserve(ranks * schedule.steps.size() + 1);
    successors_.reserve(ranks * schedule.successors.size());
    sources_.reserve(ranks * (schedule.sources.size() + schedule.steps.size()));
    values_.reserve(ranks * numbering.count());
  }

  absl::Status CheckHead(const Schedule& schedule, int rank) {
    const auto error = [&](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat("rank ", rank, ": ", what));
    };
    if (schedule.size != size_ || schedule.rank != rank) {
      return error(absl::StrCat("this is the schedule of rank ", schedule.rank, " of ", schedule.size, ", not of ",
                                rank, " of ", size_));
    }
    if (schedule.slices < 1 || schedule.slices > kSizeMax) return error("the number of slices is out of range");
    if (schedule.root < 0 || schedule.root >= size_) return error("the root is not a rank");
    constexpr size_t kMost = UINT32_MAX / 2;
    if (nodes_.size() + schedule.steps.size() > kMost) return error("too many steps in all");
    const bool pair = schedule.algorithm == Algorithm::kPair;
    if (rank == 0) {
      head_ = {schedule.collective, schedule.algorithm, size_, 0, schedule.root, schedule.wide};
      slices_ = schedule.slices;
    } else if (pair != (head_.algorithm == Algorithm::kPair) || schedule.slices != slices_ ||
               (!pair && head_ != ScheduleKey{schedule.collective, schedule.algorithm, size_, 0, schedule.root,
                                              schedule.wide})) {
      return error("collective, algorithm, root, slices or width differ from rank 0's");
    }
    return absl::OkStatus();
  }

  void AddNode(const Schedule& schedule, const CellNumbering& numbering, const Rank& info, const Step& step) {
    Node node = {.cell = info.first_cell + numbering.FirstOf(step.operand),
                 .link = static_cast<uint32_t>(sources_.size()),
                 .first_successor = static_cast<uint32_t>(successors_.size()),
                 .first = static_cast<uint16_t>(step.operand.first),
                 .count = static_cast<uint16_t>(step.operand.count),
                 .waiting = static_cast<uint16_t>(step.dependencies),
                 .kind = step.kind,
                 .final = step.final,
                 .accumulators = schedule.wide && step.operand.space >= kPlane};
    if (IsMessage(node)) {
      node.link = static_cast<uint32_t>(step.peer);
    } else {
      sources_.push_back(step.source_count);
      for (const Operand& source : schedule.SourcesOf(step)) {
        sources_.push_back(info.first_cell + numbering.FirstOf(source));
      }
    }
    nodes_.push_back(node);
    for (const uint32_t successor : schedule.SuccessorsOf(step)) successors_.push_back(info.first_node + successor);
  }

  void Count(const Schedule& schedule) {
    uint64_t messages = 0, slices = 0;
    std::vector<bool> is_peer(size_);
    for (const Step& step : schedule.steps) {
      if (step.peer >= 0) is_peer[step.peer] = true;
      if (step.kind != StepKind::kSend) continue;
      ++messages;
      slices += step.operand.count;
    }
    const auto peers = static_cast<uint32_t>(std::count(is_peer.begin(), is_peer.end(), true));
    counts_.messages_sent = std::max(counts_.messages_sent, messages);
    counts_.slices_sent = std::max(counts_.slices_sent, slices);
    counts_.peers = std::max(counts_.peers, peers);
  }

  void SetInputs(const Schedule& schedule, const Rank& info) {
    const Plane held = SlicesHeld(schedule, kInput);
    const Value input(Expressions::Leaf(static_cast<uint32_t>(schedule.rank)), /*final=*/false);
    std::fill_n(values_.begin() + info.first_cell + held.first, held.count, input);
  }

  // --- Matching: the k-th receive from a peer is linked to the peer's k-th send to this rank, and the other way. ---

  absl::Status MatchReceives(int rank) {
    for (uint32_t i = ranks_[rank].first_node; i < ranks_[rank + 1].first_node; ++i) {
      Node& recv = nodes_[i];
      if (recv.kind != StepKind::kRecv) continue;
      const uint32_t peer = recv.link;
      const uint32_t sender = IsOneForAll() ? channels_.Take(0, size_ - static_cast<int>(peer))
                                            : channels_.Take(static_cast<int>(peer), rank);
      if (sender == Channels::kNone) return ErrorAt(i, absl::StrCat("rank ", peer, " sends no message for it"));
      Node& send = nodes_[sender];
      if (SliceThere(send, peer) != recv.first || send.count != recv.count) {
        return ErrorAt(i, absl::StrCat("is for other slices than the matching ", Describe(sender)));
      }
      if (send.accumulators != recv.accumulators) {
        return ErrorAt(i, absl::StrCat("is for another type than the matching ", Describe(sender)));
      }
      recv.link = sender;
      send.link = i;
      if (IsOneForAll()) turns_[i] = peer;
    }
    return absl::OkStatus();
  }

  // The number of a slice of rank 0, in its place on the rank that is meant.
  uint32_t SliceThere(const Node& node, uint32_t rank) const {
    if (!IsOneForAll() || head_.collective == Collective::kAllToAll) return node.first;
    return (node.first + rank) % slices_;
  }

  absl::Status CheckAllMatched() {
    const uint32_t left = channels_.Left();
    if (left == Channels::kNone) return absl::OkStatus();
    return ErrorAt(left, absl::StrCat("rank ", nodes_[left].link, " has no receive for it"));
  }

  // --- Running ---

  absl::Status Run() {
    for (uint32_t i = 0; i + 1 < NodeCount(); ++i) {
      if (nodes_[i].waiting == 0) BecomeReady(i);
    }
    std::vector<uint32_t> now;
    while (!ready_.empty()) {
      now.swap(ready_);
      for (size_t i = 0; i < now.size(); ++i) {
        Prefetch(now, i);
        TUTTI_RETURN_IF_ERROR(MaybeRun(now[i]));
      }
      now.clear();
    }
    return absl::OkStatus();
  }

  void BecomeReady(uint32_t i) {
    nodes_[i].ready = true;
    ready_.push_back(i);
  }

  // A message runs with the later of its two sides.
  absl::Status MaybeRun(uint32_t i) {
    const Node& node = nodes_[i];
    if (!IsMessage(node)) return RunResult(i);
    if (node.done || !nodes_[node.link].ready) return absl::OkStatus();
    return RunMessage(node.kind == StepKind::kSend ? i : node.link);
  }

  // What the nodes after now[i] touch, which is far apart in memory: first they themselves, then what they refer to,
  // and then what that refers to.
  void Prefetch(absl::Span<const uint32_t> now, size_t i) const {
    constexpr size_t kStride = 8;
    if (i + 3 * kStride < now.size()) __builtin_prefetch(&nodes_[now[i + 3 * kStride]]);
    if (i + 2 * kStride < now.size()) {
      const Node& node = nodes_[now[i + 2 * kStride]];
      __builtin_prefetch(&values_[node.cell]);
      __builtin_prefetch(successors_.data() + node.first_successor);
      if (IsMessage(node)) {
        __builtin_prefetch(&nodes_[node.link]);
      } else {
        __builtin_prefetch(&sources_[node.link]);
      }
    }
    if (i + kStride < now.size()) {
      const uint32_t soon = now[i + kStride];
      const Node& node = nodes_[soon];
      PrefetchSuccessor(soon);
      if (IsMessage(node)) {
        __builtin_prefetch(&values_[nodes_[node.link].cell]);
        PrefetchSuccessor(node.link);
      } else {
        for (uint32_t k = 1; k <= sources_[node.link]; ++k) __builtin_prefetch(&values_[sources_[node.link + k]]);
      }
    }
  }

  void PrefetchSuccessor(uint32_t i) const {
    if (nodes_[i].first_successor == nodes_[i + 1].first_successor) return;
    __builtin_prefetch(&nodes_[successors_[nodes_[i].first_successor]]);
  }

  void Finish(uint32_t i) {
    Node& node = nodes_[i];
    node.done = true;
    for (uint32_t k = node.first_successor; k < nodes_[i + 1].first_successor; ++k) {
      Node& successor = nodes_[successors_[k]];
      successor.depth = std::max(successor.depth, node.depth);
      if (!news_.empty()) Tell(i, successors_[k]);
      if (--successor.waiting == 0) BecomeReady(successors_[k]);
    }
  }

  absl::Status RunMessage(uint32_t sender) {
    Node& send = nodes_[sender];
    const uint32_t receiver = send.link;
    Node& recv = nodes_[receiver];
    for (uint32_t i = 0; i < send.count; ++i) {
      const Value value = values_[send.cell + i];
      if (!value.IsSet()) return ErrorAt(sender, absl::StrCat("slice ", send.first + i, " holds nothing yet"));
      values_[recv.cell + i] = IsOneForAll() ? expressions_.Rotate(value, turns_[receiver]) : value;
    }
    send.depth = recv.depth = static_cast<uint16_t>(std::max(send.depth, recv.depth) + 1);
    if (!news_.empty()) Tell(sender, receiver);
    Finish(sender);
    Finish(receiver);
    return absl::OkStatus();
  }

  absl::Status RunResult(uint32_t index) {
    const Node& node = nodes_[index];
    const auto sources = absl::MakeConstSpan(sources_).subspan(node.link + 1, sources_[node.link]);
    for (uint32_t i = 0; i < node.count; ++i) {
      bool final = false;
      for (const uint32_t source : sources) {
        const Value value = values_[source + i];
        if (!value.IsSet()) return ErrorAt(index, absl::StrCat("a source of slice ", node.first + i, " holds nothing"));
        final |= value.final();
      }
      if (final && (node.final || node.kind == StepKind::kReduce)) {
        return ErrorAt(index, absl::StrCat("a source of slice ", node.first + i, " is final already"));
      }
      const Expression expression = CanonicalTree(
          static_cast<uint32_t>(sources.size()),
          [&](uint32_t source) { return values_[sources[source] + i].expression(); },
          [&](const Expression& left, const Expression& right) { return expressions_.Combine(left, right); });
      values_[node.cell + i] = Value(expression, final || node.final);
    }
    Finish(index);
    return absl::OkStatus();
  }

  absl::Status CheckAllDone() {
    for (uint32_t i = 0; i + 1 < NodeCount(); ++i) {
      const Node& node = nodes_[i];
      if (node.done || !node.ready) continue;
      // Only a message can be ready and yet not have run. Its other side waits, in the end, for this or such another.
      return ErrorAt(i, absl::StrCat("deadlock: it waits for ", Describe(node.link), ", which cannot begin"));
    }
    return absl::OkStatus();
  }

  // --- What was to be achieved ---

  absl::Status CheckOutputs() {
    const Expression reduction = Reduces(head_.collective) ? Reduction() : Expression();
    for (int rank = 0; rank < loaded_; ++rank) {
      const Plane& output = ranks_[rank].output;
      for (uint32_t slice = output.first; slice < output.first + output.count; ++slice) {
        const Value expected = ExpectedOutput(rank, slice, reduction);
        const Value value = values_[OutputCell(rank, slice)];
        if (expected.IsSet() && value != expected) return WrongOutput(rank, slice, value, expected);
      }
    }
    return absl::OkStatus();
  }

  // The expression that a reduction evaluates: the canonical tree, or else the chain of kRing (ring.cc) for slice 0.
  Expression Reduction() {
    const auto combine = [&](const Expression& left, const Expression& right) {
      return expressions_.Combine(left, right);
    };
    const uint32_t size = static_cast<uint32_t>(size_);
    if (head_.algorithm != Algorithm::kRing) return CanonicalTree(size, &Expressions::Leaf, combine);
    Expression chain = Expressions::Leaf(1 % size);
    for (uint32_t i = 2; i <= size; ++i) chain = combine(chain, Expressions::Leaf(i % size));
    return chain;
  }

  // Unset where the operation leaves no result.
  Value ExpectedOutput(int rank, uint32_t slice, const Expression& reduction) const {
    const auto leaf = [&](uint32_t owner) { return Value(Expressions::Leaf(owner), /*final=*/false); };
    const bool by_slice = head_.algorithm == Algorithm::kRing;
    switch (ranks_[rank].collective) {
      case Collective::kAllReduce:
      case Collective::kReduceScatter:
      case Collective::kReduce:
        return Value(by_slice ? expressions_.Rotate(reduction, slice % static_cast<uint32_t>(size_)) : reduction,
                     /*final=*/true);
      case Collective::kAllGather:
      case Collective::kGather:
        return leaf(slice);
      case Collective::kBroadcast:
      case Collective::kScatter:
      case Collective::kRecv:
        return leaf(static_cast<uint32_t>(ranks_[rank].root));
      case Collective::kAllToAll:
        return leaf((static_cast<uint32_t>(rank + size_) - slice) % static_cast<uint32_t>(size_));
      case Collective::kSend:
      case Collective::kBarrier:
        break;
    }
    return Value();
  }

  uint32_t OutputCell(int rank, uint32_t slice) const { return ranks_[rank].first_cell + ranks_[rank].slices + slice; }

  absl::Status WrongOutput(int rank, uint32_t slice, Value value, Value expected) {
    const std::string what = absl::StrCat("slice ", slice, " of the output ends as ", expressions_.ToString(value),
                                          " instead of ", expressions_.ToString(expected));
    const uint32_t cell = OutputCell(rank, slice);
    for (uint32_t i = ranks_[rank + 1].first_node; i-- > ranks_[rank].first_node;) {
      const Node& node = nodes_[i];
      if (node.kind != StepKind::kSend && node.cell <= cell && cell < node.cell + node.count) return ErrorAt(i, what);
    }
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank, ", no step: ", what));
  }

  // --- Barrier: which ranks' arrival each node has news of, one bit a rank. ---

  size_t NewsWords() const { return (static_cast<size_t>(size_) + 63) / 64; }

  void BeginNews() {
    news_.resize(size_t{NodeCount()} * NewsWords());
    for (int rank = 0; rank < size_; ++rank) {
      for (uint32_t i = ranks_[rank].first_node; i < ranks_[rank + 1].first_node; ++i) {
        news_[i * NewsWords() + rank / 64] |= uint64_t{1} << (rank % 64);
      }
    }
  }

  void Tell(uint32_t from, uint32_t to) {
    const size_t words = NewsWords();
    for (size_t w = 0; w < words; ++w) news_[to * words + w] |= news_[from * words + w];
  }

  absl::Status CheckNews() const {
    const size_t words = NewsWords();
    for (int rank = 0; rank < size_; ++rank) {
      std::vector<uint64_t> heard(words);
      for (size_t i = ranks_[rank].first_node * words; i < ranks_[rank + 1].first_node * words; ++i) {
        heard[i % words] |= news_[i];
      }
      for (int other = 0; other < size_; ++other) {
        if (other == rank || (heard[other / 64] >> (other % 64) & 1) != 0) continue;
        return absl::InvalidArgumentError(
            absl::StrCat("rank ", rank, ": no step of it waits, by way of others, for rank ", other, " to arrive"));
      }
    }
    return absl::OkStatus();
  }

  // --- Errors ---

  int RankOf(uint32_t node) const {
    const auto after = std::upper_bound(ranks_.begin(), ranks_.end(), node,
                                        [](uint32_t n, const Rank& rank) { return n < rank.first_node; });
    return static_cast<int>(after - ranks_.begin()) - 1;
  }

  absl::Status ErrorAt(uint32_t node, absl::string_view what) const {
    const int rank = RankOf(node);
    return StepError(schedule_(rank), node - ranks_[rank].first_node, what);
  }

  std::string Describe(uint32_t node) const {
    const int rank = RankOf(node);
    const uint32_t step = node - ranks_[rank].first_node;
    const Schedule& schedule = schedule_(rank);
    return absl::StrCat("step ", step, " of rank ", rank, " (", ToString(schedule, schedule.steps[step]), ")");
  }

  const int size_;
  const int loaded_;
  const absl::FunctionRef<const Schedule&(int rank)> schedule_;
  RankCheck rank_check_;
  Expressions expressions_;
  Channels channels_;
  ScheduleCounts counts_;

  // What all ranks have in common.
  ScheduleKey head_;
  uint32_t slices_ = 0;

  std::vector<Rank> ranks_;
  std::vector<Node> nodes_;  // and one more, to end the last one's successors
  std::vector<uint32_t> successors_;
  std::vector<uint32_t> sources_;  // of each result: how many, and their first cells
  std::vector<Value> values_;      // by cell
  std::vector<uint32_t> ready_;
  std::vector<uint64_t> news_;
  std::vector<uint32_t> turns_;  // IsOneForAll: by node, the rank from which a receive gets its message
};

absl::Status Verify(int size, int loaded, absl::FunctionRef<const Schedule&(int rank)> schedule,
                    ScheduleCounts* counts) {
  Verifier verifier(size, loaded, schedule);
  TUTTI_RETURN_IF_ERROR(verifier.Verify());
  if (counts != nullptr) *counts = verifier.Counts();
  return absl::OkStatus();
}

}  // namespace

absl::Status VerifySchedules(int size, absl::FunctionRef<const Schedule&(int rank)> schedule, ScheduleCounts* counts) {
  if (size < 1 || size > kSizeMax) return absl::InvalidArgumentError(absl::StrCat("size ", size, " is out of range"));
  if (LookAlike(size, schedule) && Verify(size, 1, schedule, counts).ok()) return absl::OkStatus();
  return Verify(size, size, schedule, counts);
}

}  // namespace tutti
