#include "src/schedule/builders.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/base/status_macros.h"
#include "src/schedule/algorithms.h"

namespace tutti {
namespace {

using Build = Schedule (*)(const ScheduleKey&);

Build BuildOf(Collective collective, Algorithm algorithm) {
  switch (collective) {
    case Collective::kAllReduce:
      if (algorithm == Algorithm::kGather) return GatherAllReduce;
      if (algorithm == Algorithm::kDoubling) return DoublingAllReduce;
      if (algorithm == Algorithm::kHalving) return HalvingAllReduce;
      if (algorithm == Algorithm::kDirect) return DirectAllReduce;
      break;
    case Collective::kReduceScatter:
      if (algorithm == Algorithm::kHalving) return HalvingReduceScatter;
      if (algorithm == Algorithm::kDirect) return DirectReduceScatter;
      break;
    case Collective::kAllGather:
      if (algorithm == Algorithm::kBruck) return BruckAllGather;
      if (algorithm == Algorithm::kDirect) return DirectAllGather;
      break;
    case Collective::kBroadcast:
      if (algorithm == Algorithm::kTree) return TreeBroadcast;
      break;
    case Collective::kBarrier:
      if (algorithm == Algorithm::kBruck) return DisseminationBarrier;
      break;
    case Collective::kSend:
      if (algorithm == Algorithm::kPair) return PairSend;
      break;
    case Collective::kRecv:
      if (algorithm == Algorithm::kPair) return PairRecv;
      break;
    case Collective::kReduce:
    case Collective::kGather:
    case Collective::kScatter:
    case Collective::kAllToAll:
      break;
  }
  return nullptr;
}

absl::Status CheckRanks(const ScheduleKey& key) {
  if (key.size < 1 || key.size > kSizeMax) {
    return absl::InvalidArgumentError(absl::StrCat("size ", key.size, " is not within 1 and ", kSizeMax));
  }
  if (key.rank < 0 || key.rank >= key.size) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", key.rank, " is not one of ", key.size, " ranks"));
  }
  const bool pair = key.algorithm == Algorithm::kPair;
  if (key.root < 0 || key.root >= key.size) {
    return absl::InvalidArgumentError(
        absl::StrCat(pair ? "peer " : "root ", key.root, " is not one of ", key.size, " ranks"));
  }
  if (pair && key.root == key.rank) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", key.rank, " is its own peer; a pair takes two ranks"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Schedule> BuildSchedule(const ScheduleKey& key) {
  const Build build = BuildOf(key.collective, key.algorithm);
  if (build == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no ", Name(key.collective), " by algorithm '", Name(key.algorithm), "'"));
  }
  TUTTI_RETURN_IF_ERROR(CheckRanks(key));
  const bool all_to_all = key.algorithm == Algorithm::kDirect || key.algorithm == Algorithm::kGather;
  if (all_to_all && key.size > kDirectSizeMax) {
    return absl::InvalidArgumentError(absl::StrCat("algorithm '", Name(key.algorithm), "' is for at most ",
                                                   kDirectSizeMax, " ranks, not ", key.size));
  }
  if (key.wide && key.algorithm != Algorithm::kDoubling && key.algorithm != Algorithm::kHalving) {
    return absl::InvalidArgumentError(
        absl::StrCat("algorithm '", Name(key.algorithm), "' has no partial results that could be wide"));
  }
  return build(key);
}

absl::Span<const Algorithm> AlgorithmsOf(Collective collective) {
  static constexpr Algorithm kAllReduce[] = {Algorithm::kGather, Algorithm::kDoubling, Algorithm::kHalving,
                                             Algorithm::kDirect};
  static constexpr Algorithm kReduceScatter[] = {Algorithm::kHalving, Algorithm::kDirect};
  static constexpr Algorithm kAllGather[] = {Algorithm::kBruck, Algorithm::kDirect};
  static constexpr Algorithm kBroadcast[] = {Algorithm::kTree};
  static constexpr Algorithm kBarrier[] = {Algorithm::kBruck};
  static constexpr Algorithm kPair[] = {Algorithm::kPair};
  switch (collective) {
    case Collective::kAllReduce:
      return kAllReduce;
    case Collective::kReduceScatter:
      return kReduceScatter;
    case Collective::kAllGather:
      return kAllGather;
    case Collective::kBroadcast:
      return kBroadcast;
    case Collective::kBarrier:
      return kBarrier;
    case Collective::kSend:
    case Collective::kRecv:
      return kPair;
    case Collective::kReduce:
    case Collective::kGather:
    case Collective::kScatter:
    case Collective::kAllToAll:
      break;
  }
  return {};
}

}  // namespace tutti
