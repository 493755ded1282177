#include "src/schedule/rotation.h"

#include <algorithm>

namespace tutti {
namespace {

bool IsAlikeForAll(const Schedule& schedule) {
  if (schedule.slices != static_cast<uint32_t>(schedule.size)) return false;
  if (Reduces(schedule.collective)) {
    return schedule.algorithm == Algorithm::kRing && schedule.collective != Collective::kReduce;
  }
  return schedule.collective == Collective::kAllGather || schedule.collective == Collective::kAllToAll;
}

// From the schedule of rank 0 to that of another.
class Rotation {
 public:
  Rotation(const Schedule& from, const Schedule& to)
      : from_(from),
        to_(to),
        size_(static_cast<uint32_t>(from.size)),
        distance_(static_cast<uint32_t>(to.rank)),
        slice_distance_(from.collective == Collective::kAllToAll ? 0 : distance_) {}

  bool Holds() const {
    return HeadsEqual() && PlanesMatch() && from_.successors == to_.successors &&
           std::equal(from_.sources.begin(), from_.sources.end(), to_.sources.begin(), to_.sources.end(),
                      [&](const Operand& a, const Operand& b) { return Matches(a, b); }) &&
           std::equal(from_.steps.begin(), from_.steps.end(), to_.steps.begin(), to_.steps.end(),
                      [&](const Step& a, const Step& b) { return Matches(a, b); });
  }

 private:
  bool HeadsEqual() const {
    return from_.collective == to_.collective && from_.algorithm == to_.algorithm && from_.size == to_.size &&
           from_.root == to_.root && from_.slices == to_.slices && from_.wide == to_.wide;
  }

  // A plane of some slices only would hold others on other ranks.
  bool PlanesMatch() const {
    return std::equal(from_.planes.begin(), from_.planes.end(), to_.planes.begin(), to_.planes.end(),
                      [&](const Plane& a, const Plane& b) {
                        return a.first == 0 && b.first == 0 && a.count == from_.slices && b.count == from_.slices;
                      });
  }

  bool Matches(const Operand& a, const Operand& b) const {
    return a.space == b.space && a.count == 1 && b.count == 1 &&
           IsAfter(a.first, b.first, slice_distance_, from_.slices);
  }

  bool Matches(const Step& a, const Step& b) const {
    return a.kind == b.kind && a.final == b.final && PeersMatch(a.peer, b.peer) && Matches(a.operand, b.operand) &&
           a.first_source == b.first_source && a.source_count == b.source_count &&
           a.first_successor == b.first_successor && a.successor_count == b.successor_count &&
           a.dependencies == b.dependencies;
  }

  bool PeersMatch(int a, int b) const {
    if (a < 0 || b < 0) return a == b;
    return IsAfter(static_cast<uint32_t>(a), static_cast<uint32_t>(b), distance_, size_);
  }

  // Whether `to` is so far after `from` in a circle of `size`, and both are in it.
  static bool IsAfter(uint32_t from, uint32_t to, uint32_t distance, uint32_t size) {
    return from < size && to < size && (from + distance == to || from + distance == to + size);
  }

  const Schedule& from_;
  const Schedule& to_;
  const uint32_t size_;
  const uint32_t distance_;
  const uint32_t slice_distance_;
};

}  // namespace

bool LookAlike(int size, absl::FunctionRef<const Schedule&(int rank)> schedule) {
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): the next call ends what this one returns.
  const Schedule first = schedule(0);
  if (first.size != size || first.rank != 0 || !IsAlikeForAll(first)) return false;
  for (int rank = 1; rank < size; ++rank) {
    const Schedule& other = schedule(rank);
    if (other.rank != rank || !Rotation(first, other).Holds()) return false;
  }
  return true;
}

}  // namespace tutti
