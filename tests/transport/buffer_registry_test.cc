#include "src/transport/shm/buffer_registry.h"

#include <fcntl.h>

#include <cstring>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr size_t kBytes = 3 * 4096;

const std::byte* At(const std::shared_ptr<void>& buffer, ptrdiff_t offset) {
  return static_cast<const std::byte*>(buffer.get()) + offset;
}

TEST(BufferRegistry, FindsThePlaceOfWhatLiesInABuffer) {
  const auto registry = BufferRegistry::Create();
  const std::shared_ptr<void> buffer = registry->Allocate(kBytes).value();
  const uint64_t id = registry->Find(buffer.get(), kBytes).value().id;
  EXPECT_NE(id, 0u);
  const std::pair<size_t, size_t> inside[] = {{0, 0},      {0, 1},          {0, kBytes}, {1, kBytes - 1},
                                              {4096, 100}, {kBytes - 1, 1}, {kBytes, 0}};
  for (const auto& [offset, bytes] : inside) {
    const std::optional<SharedPlace> place = registry->Find(At(buffer, static_cast<ptrdiff_t>(offset)), bytes);
    ASSERT_TRUE(place.has_value()) << offset << ", " << bytes;
    EXPECT_EQ(place->id, id);
    EXPECT_EQ(place->offset, offset);
  }
}

TEST(BufferRegistry, FindsNothingThatLiesPartlyOutside) {
  const auto registry = BufferRegistry::Create();
  EXPECT_FALSE(registry->Find(nullptr, 0).has_value());
  const std::shared_ptr<void> buffer = registry->Allocate(kBytes).value();
  const std::pair<ptrdiff_t, size_t> outside[] = {{-1, 0},         {-1, 1},       {-1, 2},
                                                  {0, kBytes + 1}, {1, kBytes},   {kBytes, 1},
                                                  {kBytes + 1, 0}, {0, SIZE_MAX}, {8, SIZE_MAX}};
  for (const auto& [offset, bytes] : outside) {
    EXPECT_FALSE(registry->Find(At(buffer, offset), bytes).has_value()) << offset << ", " << bytes;
  }
  const std::vector<char> other(100);
  EXPECT_FALSE(registry->Find(other.data(), other.size()).has_value());
}

// The kernel likes to put mappings next to each other.
TEST(BufferRegistry, TellsBuffersApart) {
  const auto registry = BufferRegistry::Create();
  std::vector<std::shared_ptr<void>> buffers;
  std::set<uint64_t> ids;
  for (int i = 0; i < 20; ++i) buffers.push_back(registry->Allocate(kBytes).value());
  for (const std::shared_ptr<void>& buffer : buffers) {
    ids.insert(registry->Find(buffer.get(), kBytes).value().id);
    EXPECT_FALSE(registry->Find(At(buffer, kBytes - 1), 2).has_value()) << "reaches beyond";
  }
  EXPECT_EQ(ids.size(), buffers.size());
}

TEST(BufferRegistry, NeverUsesAnIdTwice) {
  const auto registry = BufferRegistry::Create();
  std::vector<uint64_t> ids;
  for (int i = 0; i < 100; ++i) {
    const std::shared_ptr<void> buffer = registry->Allocate(kBytes).value();
    ids.push_back(registry->Find(buffer.get(), kBytes).value().id);
  }
  EXPECT_EQ(std::set<uint64_t>(ids.begin(), ids.end()).size(), ids.size());
  EXPECT_EQ(registry->ended(), ids.size());
  EXPECT_EQ(registry->EndedSince(0), ids);
  EXPECT_THAT(registry->EndedSince(98), ElementsAre(ids[98], ids[99]));
  EXPECT_THAT(registry->EndedSince(100), IsEmpty());
}

TEST(BufferRegistry, ForgetsABufferThatHasEnded) {
  const auto registry = BufferRegistry::Create();
  std::shared_ptr<void> buffer = registry->Allocate(kBytes).value();
  const std::shared_ptr<void> other = registry->Allocate(kBytes).value();
  const uint64_t id = registry->Find(buffer.get(), kBytes).value().id;
  const void* const data = buffer.get();
  buffer.reset();
  EXPECT_FALSE(registry->Find(data, 1).has_value());
  EXPECT_FALSE(registry->HandleOf(id).has_value());
  EXPECT_THAT(registry->EndedSince(0), ElementsAre(id));
  EXPECT_TRUE(registry->Find(other.get(), kBytes).has_value());
}

TEST(BufferRegistry, HandsOutTheMemoryByItsId) {
  const auto registry = BufferRegistry::Create();
  const std::shared_ptr<void> buffer = registry->Allocate(kBytes).value();
  const BufferRegistry::Handle handle = registry->HandleOf(registry->Find(buffer.get(), kBytes).value().id).value();
  EXPECT_EQ(handle.bytes, kBytes);
  const Segment theirs = Segment::Attach(Fd(::fcntl(handle.descriptor, F_DUPFD_CLOEXEC, 0)), handle.bytes).value();
  std::memset(buffer.get(), 9, kBytes);
  EXPECT_EQ(theirs.data()[kBytes - 1], std::byte{9});
  EXPECT_FALSE(registry->HandleOf(0).has_value());
  EXPECT_FALSE(registry->HandleOf(UINT64_MAX).has_value());
}

TEST(BufferRegistry, NoBytesAreNoBuffer) {
  const auto registry = BufferRegistry::Create();
  EXPECT_EQ(registry->Allocate(0).value(), nullptr);
  EXPECT_EQ(registry->ended(), 0u);
}

TEST(BufferRegistry, BuffersMayOutliveTheirOwner) {
  auto registry = BufferRegistry::Create();
  const std::shared_ptr<void> buffer = registry->Allocate(kBytes).value();
  registry.reset();
  std::memset(buffer.get(), 1, kBytes);
}

TEST(BufferRegistry, AnIsolatedBufferIsMemoryLikeAnyOther) {
  const auto registry = BufferRegistry::Create();
  std::shared_ptr<void> buffer = registry->Allocate(kBytes).value();
  const uint64_t id = registry->Find(buffer.get(), kBytes).value().id;
  const BufferRegistry::Handle handle = registry->HandleOf(id).value();
  const Segment theirs = Segment::Attach(Fd(::fcntl(handle.descriptor, F_DUPFD_CLOEXEC, 0)), handle.bytes).value();
  std::memset(buffer.get(), 1, kBytes);
  ASSERT_TRUE(registry->Isolate(id).ok());
  std::memset(theirs.data(), 2, kBytes);
  EXPECT_EQ(*At(buffer, 0), std::byte{1});
  EXPECT_EQ(*At(buffer, kBytes - 1), std::byte{1});
  EXPECT_EQ(registry->Find(buffer.get(), kBytes).value().id, 0u);
  EXPECT_FALSE(registry->HandleOf(id).has_value());
  EXPECT_TRUE(registry->Isolate(id).ok()) << "twice is no more than once";
  buffer.reset();
  EXPECT_EQ(registry->ended(), 1u);
}

TEST(BufferRegistry, ServesManyThreads) {
  const auto registry = BufferRegistry::Create();
  constexpr int kThreads = 4, kRounds = 200;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i) {
        const std::shared_ptr<void> buffer = registry->Allocate(kBytes).value();
        std::memset(buffer.get(), i, kBytes);
        const std::optional<SharedPlace> place = registry->Find(At(buffer, 10), 20);
        ASSERT_TRUE(place.has_value());
        EXPECT_EQ(place->offset, 10u);
        EXPECT_TRUE(registry->HandleOf(place->id).has_value());
        EXPECT_LE(registry->EndedSince(registry->ended()).size(), static_cast<size_t>(kThreads * kRounds));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<uint64_t> ended = registry->EndedSince(0);
  EXPECT_EQ(std::set<uint64_t>(ended.begin(), ended.end()).size(), static_cast<size_t>(kThreads * kRounds));
}

}  // namespace
}  // namespace tutti
