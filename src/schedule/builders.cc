#include "src/schedule/builders.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/base/status_macros.h"
#include "src/schedule/algorithms.h"

namespace tutti {
namespace {

using Build = Schedule (*)(const ScheduleKey&);

struct Entry {
  Collective collective;
  Algorithm algorithm;
  Build build;
};

// Those of a collective stand together.
constexpr Entry kEntries[] = {
    {Collective::kAllReduce, Algorithm::kExchange, ExchangeAllReduce},
    {Collective::kAllReduce, Algorithm::kGather, GatherAllReduce},
    {Collective::kAllReduce, Algorithm::kDoubling, DoublingAllReduce},
    {Collective::kAllReduce, Algorithm::kQuadrupling, QuadruplingAllReduce},
    {Collective::kAllReduce, Algorithm::kHalving, HalvingAllReduce},
    {Collective::kAllReduce, Algorithm::kDirect, DirectAllReduce},
    {Collective::kAllReduce, Algorithm::kHierarchical, HierarchicalAllReduce},
    {Collective::kAllReduce, Algorithm::kRing, RingAllReduce},
    {Collective::kReduceScatter, Algorithm::kHalving, HalvingReduceScatter},
    {Collective::kReduceScatter, Algorithm::kDirect, DirectReduceScatter},
    {Collective::kReduceScatter, Algorithm::kRing, RingReduceScatter},
    {Collective::kAllGather, Algorithm::kBruck, BruckAllGather},
    {Collective::kAllGather, Algorithm::kDirect, DirectAllGather},
    {Collective::kAllGather, Algorithm::kRing, RingAllGather},
    {Collective::kBroadcast, Algorithm::kTree, TreeBroadcast},
    {Collective::kBroadcast, Algorithm::kDirect, DirectBroadcast},
    {Collective::kReduce, Algorithm::kGather, GatherReduce},
    {Collective::kReduce, Algorithm::kTree, TreeReduce},
    {Collective::kReduce, Algorithm::kDirect, DirectReduce},
    {Collective::kGather, Algorithm::kTree, TreeGather},
    {Collective::kGather, Algorithm::kDirect, DirectGather},
    {Collective::kScatter, Algorithm::kTree, TreeScatter},
    {Collective::kScatter, Algorithm::kDirect, DirectScatter},
    {Collective::kAllToAll, Algorithm::kBruck, BruckAllToAll},
    {Collective::kAllToAll, Algorithm::kDirect, DirectAllToAll},
    {Collective::kBarrier, Algorithm::kBruck, DisseminationBarrier},
    {Collective::kSend, Algorithm::kPair, PairSend},
    {Collective::kRecv, Algorithm::kPair, PairRecv},
};

Build BuildOf(Collective collective, Algorithm algorithm) {
  for (const Entry& entry : kEntries) {
    if (entry.collective == collective && entry.algorithm == algorithm) return entry.build;
  }
  return nullptr;
}

bool TakesFewRanks(Collective collective, Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kExchange:
    case Algorithm::kGather:
      return true;
    case Algorithm::kDirect:  // elsewhere only the root is connected to all
      return collective != Collective::kGather && collective != Collective::kScatter;
    default:
      return false;
  }
}

// A rank is connected to those of its host, and to one on every other.
bool TakesHosts(int size, int ranks_per_host) {
  return ranks_per_host > 1 && ranks_per_host < size && size % ranks_per_host == 0 &&
         ranks_per_host + size / ranks_per_host <= kDirectSizeMax;
}

absl::Status CheckHosts(const ScheduleKey& key) {
  if (key.algorithm == Algorithm::kHierarchical && !TakesHosts(key.size, key.ranks_per_host)) {
    return absl::InvalidArgumentError(
        absl::StrCat("algorithm '", Name(key.algorithm), "' is for several hosts with several ranks each, ",
                     kDirectSizeMax, " in sum at most, not for ", key.size, " ranks, ", key.ranks_per_host, " a host"));
  }
  if (key.algorithm != Algorithm::kHierarchical && key.ranks_per_host != 1) {
    return absl::InvalidArgumentError(absl::StrCat("algorithm '", Name(key.algorithm), "' takes no notice of hosts"));
  }
  return absl::OkStatus();
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
  if (key.size > kDirectSizeMax && TakesFewRanks(key.collective, key.algorithm)) {
    return absl::InvalidArgumentError(absl::StrCat("algorithm '", Name(key.algorithm), "' is for at most ",
                                                   kDirectSizeMax, " ranks, not ", key.size));
  }
  TUTTI_RETURN_IF_ERROR(CheckHosts(key));
  if (key.wide && !MayBeWide(key.collective, key.algorithm)) {
    return absl::InvalidArgumentError(
        absl::StrCat("algorithm '", Name(key.algorithm), "' has no partial results that could be wide"));
  }
  return build(key);
}

bool IsOffered(Collective collective, Algorithm algorithm, int size, int ranks_per_host) {
  if (BuildOf(collective, algorithm) == nullptr) return false;
  if (algorithm == Algorithm::kHierarchical) return TakesHosts(size, ranks_per_host);
  return size <= kDirectSizeMax || !TakesFewRanks(collective, algorithm);
}

absl::Span<const Algorithm> AlgorithmsOf(Collective collective) {
  // One after another, as in kEntries.
  static constexpr auto kAlgorithms = [] {
    std::array<Algorithm, std::size(kEntries)> algorithms{};
    for (size_t i = 0; i < algorithms.size(); ++i) algorithms[i] = kEntries[i].algorithm;
    return algorithms;
  }();
  const auto is_of = [&](const Entry& entry) { return entry.collective == collective; };
  const auto begin = std::find_if(std::begin(kEntries), std::end(kEntries), is_of);
  const auto end = std::find_if_not(begin, std::end(kEntries), is_of);
  return absl::MakeConstSpan(kAlgorithms).subspan(begin - std::begin(kEntries), end - begin);
}

}  // namespace tutti
