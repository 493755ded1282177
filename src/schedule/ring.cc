// kRing: slices go round from each rank to the next, and nobody talks to anybody else.
//
// There are n slices; slice s belongs to rank s. Reduce-scatter: the partial result of slice s starts as the input of
// rank s+1 (mod n) and visits the ranks s+2, s+3, ..., each of which adds its own input on the right; rank s is the
// last, and finishes it. So slice s is the chain
//
//   ((((s+1) (s+2)) (s+3)) ... ) s          ranks mod n
//
// whose order depends on the slice: this is not the canonical tree, and the same numbers at another place of a buffer
// may be rounded otherwise. All ranks get the same bits nevertheless, since one rank alone evaluates a slice.
// All-gather: the block of rank s goes round from there to s-1. All-reduce is one after the other. For n = 3, on rank
// 1:
//
//   send kInput[0] to 2;  recv plane[2] from 0;  plane[2] += kInput[2];  send plane[2] to 2;
//   recv plane[1] from 0;  kOutput[1] = plane[1] + kInput[1];
//   send kOutput[1] to 2;  recv kOutput[0] from 0;  send kOutput[0] to 2;  recv kOutput[2] from 0
//
// The fewest bytes there can be, over links between neighbours only, but n - 1 or 2(n - 1) messages deep: for large
// operands where links are shared. In a wide schedule the partial results travel, and are added, as accumulators.

#include "src/schedule/algorithms.h"
#include "src/schedule/schedule_builder.h"

namespace tutti {
namespace {

class Ring {
 public:
  explicit Ring(const ScheduleKey& key) : key_(key), builder_(key, static_cast<uint32_t>(key.size)) {}

  void ReduceScatter() {
    if (key_.wide) Widen();
    Operand partial = Slice(contributions_, Before(1));
    if (key_.size > 1) arriving_ = AddPlane();
    for (int distance = 1; distance < key_.size; ++distance) {
      const int slice = Before(distance + 1);
      const Operand mine = Slice(contributions_, slice);
      builder_.Send(partial, After());
      partial = Slice(arriving_, slice);
      builder_.Recv(Before(1), partial);
      if (slice == key_.rank && !key_.wide) {
        builder_.ReduceFinal({partial, mine}, Slice(kOutput, slice));
      } else {
        builder_.Reduce({partial, mine}, partial);
      }
    }
    if (key_.wide || key_.size == 1) builder_.Finish(partial, Slice(kOutput, key_.rank));
  }

  // This rank's block is in kOutput.
  void AllGather() {
    for (int distance = 1; distance < key_.size; ++distance) {
      builder_.Send(Slice(kOutput, Before(distance - 1)), After());
      builder_.Recv(Before(1), Slice(kOutput, Before(distance)));
    }
  }

  void CopyOwnBlock() { builder_.Copy(Slice(kInput, key_.rank), Slice(kOutput, key_.rank)); }

  Schedule Build() && { return std::move(builder_).Build(); }

 private:
  static Operand Slice(Space space, int slice) { return {space, static_cast<uint32_t>(slice)}; }
  int After() const { return (key_.rank + 1) % key_.size; }
  int Before(int distance) const { return (key_.rank + key_.size - distance) % key_.size; }
  Space AddPlane() { return builder_.AddPlane(0, static_cast<uint32_t>(key_.size)); }

  void Widen() {
    contributions_ = AddPlane();
    for (int distance = 1; distance <= key_.size; ++distance) {  // in the order of use
      builder_.Copy(Slice(kInput, Before(distance)), Slice(contributions_, Before(distance)));
    }
  }

  const ScheduleKey& key_;
  ScheduleBuilder builder_;
  Space contributions_ = kInput;  // this rank's
  Space arriving_ = kInput;       // partial results of the ranks before
};

}  // namespace

Schedule RingAllReduce(const ScheduleKey& key) {
  Ring ring(key);
  ring.ReduceScatter();
  ring.AllGather();
  return std::move(ring).Build();
}

Schedule RingReduceScatter(const ScheduleKey& key) {
  Ring ring(key);
  ring.ReduceScatter();
  return std::move(ring).Build();
}

Schedule RingAllGather(const ScheduleKey& key) {
  Ring ring(key);
  ring.CopyOwnBlock();
  ring.AllGather();
  return std::move(ring).Build();
}

}  // namespace tutti
