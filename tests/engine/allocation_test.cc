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

TEST(Allocation, NoneAfterTheFirstOperationsOfTheirKind) {
  TestGroups groups = MakeGroups(Wire::kTcp, 2);
  OnEachRank(2, [&](int rank) {
    std::vector<float> small(16), large(1 << 20);
    const auto all = [&] {
      EXPECT_TRUE(groups[rank].AllReduce(absl::MakeSpan(small)).Wait().ok());
      EXPECT_TRUE(groups[rank].AllReduce(absl::MakeSpan(large)).Wait().ok());
      EXPECT_TRUE(groups[rank].Broadcast(absl::MakeSpan(large), 1).Wait().ok());
      EXPECT_TRUE(groups[rank].Barrier().Wait().ok());
    };
    for (int i = 0; i < 20; ++i) all();
    if (rank == 0) counting = true;
    EXPECT_TRUE(groups[rank].Barrier().Wait().ok());
    for (int i = 0; i < 50; ++i) all();
    EXPECT_TRUE(groups[rank].Barrier().Wait().ok());
    if (rank == 0) counting = false;
  });
  EXPECT_EQ(allocations.load(), 0);
}

}  // namespace
}  // namespace tutti
