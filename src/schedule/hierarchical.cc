// All-reduce kHierarchical: inside each host first, so that between hosts only partial results travel.
//
// There are m hosts of p neighbouring ranks: rank h p + l is number l of host h. The operand is cut into n = m p
// slices. Number l of each host leads the m slices from l m on, and of these the one of host h finishes slice l m + h.
//
//   1. Inside the host, each rank sends each other its input in the slices that one leads.
//   2. Each rank reduces these, slice by slice, and sends each partial result to whoever finishes the slice, which is
//      the rank with its own number on another host, and returns the result.
//   3. Inside the host, each rank sends each other the slices that it leads.
//
// For m = p = 2, on rank 1 = number 1 of host 0, which leads slices 2 and 3:
//
//   send kInput[0..2) to 0;  recv plane0[2..4) from 0;
//   plane1[3] = plane0[3] + kInput[3];  send plane1[3] to 3;  plane1[2] = plane0[2] + kInput[2];
//   recv plane2[2] from 3;  kOutput[2] = plane1[2] + plane2[2];  send kOutput[2] to 3;  recv kOutput[3] from 3;
//   send kOutput[2..4) to 0;  recv kOutput[0..2) from 0
//
// A partial result is the largest subtree of the canonical tree within the host. With p a power of two that is all of
// the host, and above the hosts the tree is the canonical tree over them; so each host sends 2 (m-1)/m times the
// operand to others, the fewest bytes there can be. Otherwise a host has a few such subtrees, single inputs among them,
// and sends them all.
//
// Four messages deep. A rank sends 2 (m-1) messages to other hosts, or some more, and 2 (p-1) inside, which hold m
// slices each: one by one they would be many and small. Of a large operand, one segment is inside the hosts while
// another is between them.

#include <array>
#include <bit>
#include <utility>
#include <vector>

#include "src/schedule/algorithms.h"
#include "src/schedule/canonical_tree.h"
#include "src/schedule/schedule_builder.h"

namespace tutti {
namespace {

// A node of the canonical tree: the ranks that are its leaves.
struct Node {
  uint32_t first = 0;
  uint32_t count = 1;
};

class Hierarchical {
 public:
  explicit Hierarchical(const ScheduleKey& key)
      : key_(key),
        size_(static_cast<uint32_t>(key.size)),
        locals_(static_cast<uint32_t>(key.ranks_per_host)),
        hosts_(size_ / locals_),
        host_(HostOf(static_cast<uint32_t>(key.rank))),
        local_(static_cast<uint32_t>(key.rank) % locals_),
        builder_(key, size_),
        nodes_(NodesWithinHosts()),
        values_(size_) {}

  Schedule Build() && {
    if (key_.wide) Widen();
    ExchangeInputs();
    SendPartials();
    RecvPartials();
    FinishOwnSlice();
    ExchangeResults();
    return std::move(builder_).Build();
  }

 private:
  uint32_t HostOf(uint32_t rank) const { return rank / locals_; }
  int RankOf(uint32_t host, uint32_t local) const { return static_cast<int>(host * locals_ + local); }
  // By distance, so that no rank is everybody's first.
  uint32_t HostAfter(uint32_t distance) const { return (host_ + distance) % hosts_; }
  uint32_t HostBefore(uint32_t distance) const { return (host_ + hosts_ - distance) % hosts_; }
  uint32_t LocalAfter(uint32_t distance) const { return (local_ + distance) % locals_; }
  uint32_t LocalBefore(uint32_t distance) const { return (local_ + locals_ - distance) % locals_; }

  // The slices that a rank of this host leads.
  Operand LedBy(uint32_t local, Space space) const { return {space, local * hosts_, hosts_}; }
  // The one of them that this rank's counterpart on a host finishes.
  Operand FinishedBy(uint32_t host, Space space) const { return {space, local_ * hosts_ + host}; }

  // Calls act(left, right) for the children of each node with leaves on several hosts, after it has for theirs.
  template <typename Act>
  void ForEachNodeAcrossHosts(const Act& act) const {
    CanonicalTree(
        size_,
        [](uint32_t rank) {
          return Node{rank, 1};
        },
        [&](Node left, Node right) {
          const Node both = {left.first, left.count + right.count};
          if (!IsWithinHost(both)) act(left, right);
          return both;
        });
  }

  bool IsWithinHost(Node node) const { return HostOf(node.first) == HostOf(node.first + node.count - 1); }

  // The largest ones of each host, in order of rank.
  std::vector<std::vector<Node>> NodesWithinHosts() const {
    std::vector<uint32_t> counts(size_);  // of the node that begins with a rank
    ForEachNodeAcrossHosts([&](Node left, Node right) {
      for (const Node node : {left, right}) {
        if (IsWithinHost(node)) counts[node.first] = node.count;
      }
    });
    std::vector<std::vector<Node>> nodes(hosts_);
    for (uint32_t rank = 0; rank < size_; ++rank) {
      if (counts[rank] > 0) nodes[HostOf(rank)].push_back({rank, counts[rank]});
    }
    return nodes;
  }

  void Widen() {
    inputs_ = builder_.AddPlane(0, size_);
    for (uint32_t distance = 1; distance <= locals_; ++distance) {  // in the order of use
      builder_.Copy(LedBy(LocalAfter(distance), kInput), LedBy(LocalAfter(distance), inputs_));
    }
  }

  void ExchangeInputs() {
    contributions_.assign(locals_, inputs_);
    for (uint32_t distance = 1; distance < locals_; ++distance) {
      const uint32_t peer = LocalAfter(distance);
      builder_.Send(LedBy(peer, inputs_), RankOf(host_, peer));
    }
    for (uint32_t distance = 1; distance < locals_; ++distance) {
      const uint32_t peer = LocalBefore(distance);
      contributions_[peer] = AddPlane(LedBy(local_, kInput));
      builder_.Recv(RankOf(host_, peer), LedBy(local_, contributions_[peer]));
    }
  }

  // The slice that this rank finishes comes last.
  void SendPartials() {
    std::vector<Space> partials;  // of each node
    for (const Node node : nodes_[host_]) {
      partials.push_back(node.count == 1 ? contributions_[node.first % locals_] : AddPlane(LedBy(local_, kInput)));
    }
    for (uint32_t distance = 1; distance <= hosts_; ++distance) {
      const uint32_t host = HostAfter(distance);
      for (size_t i = 0; i < partials.size(); ++i) {
        const Node node = nodes_[host_][i];
        const Operand partial = FinishedBy(host, partials[i]);
        if (node.count > 1) builder_.Reduce(ContributionsTo(node, host), partial);
        if (host == host_) values_[node.first] = partial;
      }
      if (host == host_) continue;
      for (const Space partial : partials) builder_.Send(FinishedBy(host, partial), RankOf(host, local_));
    }
  }

  std::vector<Operand> ContributionsTo(Node node, uint32_t host) const {
    std::vector<Operand> sources;
    for (uint32_t i = 0; i < node.count; ++i) {
      sources.push_back(FinishedBy(host, contributions_[node.first % locals_ + i]));
    }
    return sources;
  }

  void RecvPartials() {
    for (uint32_t distance = 1; distance < hosts_; ++distance) {
      const uint32_t host = HostBefore(distance);
      for (const Node node : nodes_[host]) {
        values_[node.first] = FinishedBy(host_, AddPlane(FinishedBy(host_, kInput)));
        builder_.Recv(RankOf(host, local_), values_[node.first]);
      }
    }
  }

  void FinishOwnSlice() {
    if (std::has_single_bit(locals_)) {  // one node a host: one pass
      std::vector<Operand> sources;
      for (const std::vector<Node>& of_host : nodes_) sources.push_back(values_[of_host[0].first]);
      Combine(sources, /*last=*/true);
      return;
    }
    ForEachNodeAcrossHosts([&](Node left, Node right) {
      const std::array<Operand, 2> sources = {values_[left.first], values_[right.first]};
      values_[left.first] = Combine(sources, /*last=*/left.count + right.count == size_);
    });
  }

  Operand Combine(absl::Span<const Operand> sources, bool last) {
    const Operand result = FinishedBy(host_, kOutput);
    if (last && !key_.wide) {
      builder_.ReduceFinal(sources, result);
      return result;
    }
    const Operand partial = FinishedBy(host_, AddPlane(result));
    builder_.Reduce(sources, partial);
    if (last) builder_.Finish(partial, result);
    return partial;
  }

  void ExchangeResults() {
    for (uint32_t distance = 1; distance < hosts_; ++distance) {
      builder_.Send(FinishedBy(host_, kOutput), RankOf(HostAfter(distance), local_));
    }
    for (uint32_t distance = 1; distance < hosts_; ++distance) {
      const uint32_t host = HostBefore(distance);
      builder_.Recv(RankOf(host, local_), FinishedBy(host, kOutput));
    }
    for (uint32_t distance = 1; distance < locals_; ++distance) {
      builder_.Send(LedBy(local_, kOutput), RankOf(host_, LocalAfter(distance)));
    }
    for (uint32_t distance = 1; distance < locals_; ++distance) {
      const uint32_t peer = LocalBefore(distance);
      builder_.Recv(RankOf(host_, peer), LedBy(peer, kOutput));
    }
  }

  // Of the slices of `like`.
  Space AddPlane(const Operand& like) { return builder_.AddPlane(like.first, like.count); }

  const ScheduleKey& key_;
  const uint32_t size_;
  const uint32_t locals_;  // ranks of a host
  const uint32_t hosts_;
  const uint32_t host_;   // this rank's
  const uint32_t local_;  // this rank's number on it
  ScheduleBuilder builder_;
  const std::vector<std::vector<Node>> nodes_;  // within each host
  Space inputs_ = kInput;                       // where this rank's are
  std::vector<Space> contributions_;            // of each rank of the host, to the slices that this one leads
  std::vector<Operand> values_;                 // of the slice that this rank finishes, by the node's first rank
};

}  // namespace

Schedule HierarchicalAllReduce(const ScheduleKey& key) { return Hierarchical(key).Build(); }

}  // namespace tutti
