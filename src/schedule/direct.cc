// kDirect: everybody sends everybody their slice, with nobody in between.
//
// Slice j belongs to rank j. Reduce-scatter: each rank sends slice j of its input to rank j, receives n - 1
// contributions to its own slice, one scratch plane each, and reduces them with its own in one pass. All-gather: each
// rank sends its block to all others. All-reduce is one after the other. For n = 3, on rank 1:
//
//   send kInput[2] to 2;  send kInput[0] to 0;  recv plane of 0 from 0;  recv plane of 2 from 2;
//   kOutput[1] = tree(plane of 0, kInput[1], plane of 2);
//   send kOutput[1] to 2;  send kOutput[1] to 0;  recv kOutput[0] from 0;  recv kOutput[2] from 2
//
// Reduce is a reduce-scatter, after which every rank sends its finished slice to the root; as there is no kOutput but
// the root's, the others finish it in a plane.
//
// The fewest bytes there can be, one message deep each, and 16-bit floats are rounded once without wider messages; but
// 2(n - 1) messages to n - 1 peers. Rank r serves r + 1 first, then r + 2, and so on, so that no rank is everybody's
// first.

#include <vector>

#include "src/schedule/algorithms.h"
#include "src/schedule/schedule_builder.h"

namespace tutti {
namespace {

class Direct {
 public:
  explicit Direct(const ScheduleKey& key) : key_(key), builder_(key, static_cast<uint32_t>(key.size)) {}

  void ReduceScatter(const Operand& result) {
    std::vector<Operand> contributions(key_.size, Slice(kInput, key_.rank));
    for (int distance = 1; distance < key_.size; ++distance)
      builder_.Send(Slice(kInput, After(distance)), After(distance));
    for (int distance = 1; distance < key_.size; ++distance) {
      const int peer = Before(distance);
      contributions[peer].space = builder_.AddPlane(static_cast<uint32_t>(key_.rank), 1);
      builder_.Recv(peer, contributions[peer]);
    }
    builder_.ReduceFinal(contributions, result);
  }

  // Leaves the finished slice in a plane, or on the root in kOutput, and brings it there.
  void Reduce() {
    if (key_.rank != key_.root) {
      const Operand result = Slice(builder_.AddPlane(static_cast<uint32_t>(key_.rank), 1), key_.rank);
      ReduceScatter(result);
      builder_.Send(result, key_.root);
      return;
    }
    ReduceScatter(OwnOutput());
    for (int distance = 1; distance < key_.size; ++distance) {
      builder_.Recv(Before(distance), Slice(kOutput, Before(distance)));
    }
  }

  // This rank's block is in kOutput.
  void AllGather() {
    for (int distance = 1; distance < key_.size; ++distance) builder_.Send(OwnOutput(), After(distance));
    for (int distance = 1; distance < key_.size; ++distance) {
      builder_.Recv(Before(distance), Slice(kOutput, Before(distance)));
    }
  }

  void CopyOwnBlock() { builder_.Copy(Slice(kInput, key_.rank), OwnOutput()); }

  Operand OwnOutput() const { return Slice(kOutput, key_.rank); }

  Schedule Build() && { return std::move(builder_).Build(); }

 private:
  static Operand Slice(Space space, int slice) { return {space, static_cast<uint32_t>(slice)}; }
  int After(int distance) const { return (key_.rank + distance) % key_.size; }
  int Before(int distance) const { return (key_.rank + key_.size - distance) % key_.size; }

  const ScheduleKey& key_;
  ScheduleBuilder builder_;
};

}  // namespace

Schedule DirectAllReduce(const ScheduleKey& key) {
  Direct direct(key);
  direct.ReduceScatter(direct.OwnOutput());
  direct.AllGather();
  return std::move(direct).Build();
}

Schedule DirectReduceScatter(const ScheduleKey& key) {
  Direct direct(key);
  direct.ReduceScatter(direct.OwnOutput());
  return std::move(direct).Build();
}

Schedule DirectReduce(const ScheduleKey& key) {
  Direct direct(key);
  direct.Reduce();
  return std::move(direct).Build();
}

Schedule DirectAllGather(const ScheduleKey& key) {
  Direct direct(key);
  direct.CopyOwnBlock();
  direct.AllGather();
  return std::move(direct).Build();
}

}  // namespace tutti
