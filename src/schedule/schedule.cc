#include "src/schedule/schedule.h"

#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

absl::string_view Name(StepKind kind) {
  switch (kind) {
    case StepKind::kSend:
      return "send";
    case StepKind::kRecv:
      return "recv";
    case StepKind::kReduce:
      return "reduce";
    case StepKind::kCopy:
      return "copy";
  }
  return "unknown";
}

std::string ToString(const Operand& operand) {
  std::string space = operand.space == kInput    ? "input"
                      : operand.space == kOutput ? "output"
                                                 : absl::StrCat("plane", operand.space - kPlane);
  if (operand.count == 1) return absl::StrCat(space, "[", operand.first, "]");
  return absl::StrCat(space, "[", operand.first, "..", operand.first + operand.count, ")");
}

}  // namespace

absl::string_view Name(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return "all-reduce";
    case Collective::kReduceScatter:
      return "reduce-scatter";
    case Collective::kAllGather:
      return "all-gather";
    case Collective::kBroadcast:
      return "broadcast";
    case Collective::kBarrier:
      return "barrier";
    case Collective::kSend:
      return "send";
    case Collective::kRecv:
      return "recv";
    case Collective::kReduce:
      return "reduce";
    case Collective::kGather:
      return "gather";
    case Collective::kScatter:
      return "scatter";
    case Collective::kAllToAll:
      return "all-to-all";
  }
  return "unknown";
}

absl::string_view Name(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kGather:
      return "gather";
    case Algorithm::kDoubling:
      return "doubling";
    case Algorithm::kHalving:
      return "halving";
    case Algorithm::kDirect:
      return "direct";
    case Algorithm::kBruck:
      return "bruck";
    case Algorithm::kTree:
      return "tree";
    case Algorithm::kPair:
      return "pair";
    case Algorithm::kExchange:
      return "exchange";
    case Algorithm::kQuadrupling:
      return "quadrupling";
    case Algorithm::kRing:
      return "ring";
    case Algorithm::kHierarchical:
      return "hierarchical";
    case Algorithm::kShared:
      return "shared memory";
  }
  return "unknown";
}

Plane SlicesHeld(const Schedule& schedule, Space space) {
  if (space >= kPlane) return schedule.planes[space - kPlane];
  const Plane all = {0, schedule.slices};
  const Plane own = {static_cast<uint32_t>(schedule.rank), 1};
  const bool input = space == kInput;
  const bool root = schedule.rank == schedule.root;
  switch (schedule.collective) {
    case Collective::kAllReduce:
    case Collective::kAllToAll:
    case Collective::kBarrier:
      return all;
    case Collective::kReduceScatter:
      return input ? all : own;
    case Collective::kAllGather:
      return input ? own : all;
    case Collective::kBroadcast:
      return input == root ? all : Plane{};
    case Collective::kReduce:
      return input || root ? all : Plane{};
    case Collective::kGather:
      return input ? own : root ? all : Plane{};
    case Collective::kScatter:
      return !input ? own : root ? all : Plane{};
    case Collective::kSend:
      return input ? all : Plane{};
    case Collective::kRecv:
      return input ? Plane{} : all;
  }
  return {};
}

std::string ToString(const Schedule& schedule, const Step& step) {
  std::string text = absl::StrCat(Name(step.kind), step.final ? " final " : " ", ToString(step.operand));
  if (step.kind == StepKind::kSend) absl::StrAppend(&text, " to ", step.peer);
  if (step.kind == StepKind::kRecv) absl::StrAppend(&text, " from ", step.peer);
  absl::string_view separator = " = ";
  for (const Operand& source : schedule.SourcesOf(step)) {
    absl::StrAppend(&text, separator, ToString(source));
    separator = ", ";
  }
  return text;
}

std::string ToString(const Schedule& schedule) {
  std::string text =
      absl::StrCat(Name(schedule.collective), " by ", Name(schedule.algorithm), ", rank ", schedule.rank, " of ",
                   schedule.size, ", ", schedule.slices, " slices", schedule.wide ? ", wide" : "", "\n");
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    absl::StrAppend(&text, i, ": ", ToString(schedule, schedule.steps[i]));
    absl::string_view separator = "  before ";
    for (const uint32_t successor : schedule.SuccessorsOf(schedule.steps[i])) {
      absl::StrAppend(&text, separator, successor);
      separator = " ";
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace tutti
