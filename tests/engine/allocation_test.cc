// After the first operation of its kind, an operation allocates nothing.

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/groups.h"
#include "tutti/process_group.h"

namespace {

std::atomic<bool> counting{false};
std::atomic<int> allocations{0};

void* Allocate(std::size_t bytes) {
  if (counting.load(std::memory_order_relaxed)) ++allocations;
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return Allocate(bytes); }
void* operator new[](std::size_t bytes) { return Allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace tutti {
namespace {

// Every collective that may be called on two ranks, small and large, by one rank of two.
class Everything {
 public:
  explicit Everything(ProcessGroup& group) : group_(group) {}

  void Run() {
    for (const size_t count : {size_t{16}, size_t{1} << 19}) {
      const absl::Span<float> whole(first_.data(), 2 * count), other(second_.data(), 2 * count);
      const absl::Span<float> block(block_.data(), count);
      const size_t counts[] = {count, count};
      const ConstTensor whole_in(absl::Span<const float>{whole}), block_in(absl::Span<const float>{block});
      Expect(group_.AllReduce(whole));
      Expect(group_.Reduce(whole_in, other, 0));
      Expect(group_.ReduceScatter(whole_in, block));
      Expect(group_.ReduceScatterV(whole_in, block, counts));
      Expect(group_.AllGather(block_in, whole));
      Expect(group_.AllGatherV(block_in, whole, counts));
      Expect(group_.Broadcast(whole, 1));
      Expect(group_.Gather(block_in, whole, 1));
      Expect(group_.GatherV(block_in, whole, counts, 1));
      Expect(group_.Scatter(whole_in, block, 1));
      Expect(group_.ScatterV(whole_in, block, counts, 1));
      Expect(group_.AllToAll(whole_in, other));
      Expect(group_.AllToAllV(whole_in, counts, other, counts));
      Expect(group_.Barrier());
      Expect(group_.Batch([&](ProcessGroup& batch) {
        (void)batch.Send(block_in, 1 - group_.rank(), {.tag = 5});
        (void)batch.RecvAny(other.subspan(0, count), {.tag = 5});
      }));
    }
  }

 private:
  void Expect(Work work) { EXPECT_TRUE(work.Wait().ok()); }

  ProcessGroup& group_;
  std::vector<float> first_ = std::vector<float>(1 << 20), second_ = first_, block_ = first_;
};

class Allocation : public testing::TestWithParam<Wire> {};

TEST_P(Allocation, NoneAfterTheFirstOperationsOfTheirKind) {
  allocations = 0;
  TestGroups groups = MakeGroups(GetParam(), 2);
  OnEachRank(2, [&](int rank) {
    Everything everything(groups[rank]);
    for (int i = 0; i < 20; ++i) everything.Run();
    if (rank == 0) counting = true;
    EXPECT_TRUE(groups[rank].Barrier().Wait().ok());
    for (int i = 0; i < 50; ++i) everything.Run();
    EXPECT_TRUE(groups[rank].Barrier().Wait().ok());
    if (rank == 0) counting = false;
  });
  EXPECT_EQ(allocations.load(), 0);
}

INSTANTIATE_TEST_SUITE_P(Wires, Allocation, testing::Values(Wire::kTcp, Wire::kShm),
                         [](const testing::TestParamInfo<Wire>& wire) { return Name(wire.param); });

}  // namespace
}  // namespace tutti
