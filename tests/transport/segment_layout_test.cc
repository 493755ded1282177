#include "src/transport/shm/segment_layout.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace tutti {
namespace {

constexpr size_t kRoundBytes = SegmentLayout::kRoundBytes;
constexpr size_t kAreaBytes = SegmentLayout::kAreaBytes;

struct Range {
  size_t begin, end;
  std::string name;
};

// Of everything that lies in a segment, by address.
std::vector<Range> RangesOf(const SegmentLayout& layout, int count, std::byte* segment) {
  std::vector<Range> ranges;
  auto add = [&](const void* at, size_t bytes, std::string name) {
    const auto begin = static_cast<size_t>(static_cast<const std::byte*>(at) - segment);
    ranges.push_back({begin, begin + bytes, std::move(name)});
  };
  add(&layout.board(segment), sizeof(Board), "board");
  for (int neighbour = 0; neighbour < count; ++neighbour) {
    for (const Channel channel : {Channel::kCollective, Channel::kPointToPoint}) {
      const std::string name = absl::StrCat(" of neighbour ", neighbour, ", channel ", static_cast<int>(channel));
      add(&layout.read_to(segment, neighbour, channel), kLine, "read position" + name);
      add(&layout.written_to(segment, neighbour, channel), kLine, "written position" + name);
      add(layout.ring(segment, neighbour, channel), layout.ring_bytes(), "ring" + name);
    }
  }
  add(layout.area(segment), kAreaBytes, "area");
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  return ranges;
}

TEST(SegmentLayout, GivesEverythingAPlaceOfItsOwnOnLinesOfItsOwn) {
  for (int count = 2; count <= 64; ++count) {
    SCOPED_TRACE(count);
    const SegmentLayout layout(count);
    // Nothing is read or written.
    const std::unique_ptr<std::byte, void (*)(std::byte*)> segment(
        static_cast<std::byte*>(::operator new (layout.bytes(), std::align_val_t{4096})),
        [](std::byte* data) { ::operator delete (data, std::align_val_t{4096}); });
    const std::vector<Range> ranges = RangesOf(layout, count, segment.get());
    size_t end = 0;
    for (const Range& range : ranges) {
      EXPECT_GE(range.begin, end) << range.name << " overlaps what is before it";
      EXPECT_EQ(range.begin % kLine, 0u) << range.name;
      end = range.end;
    }
    EXPECT_LE(end, layout.bytes());
    EXPECT_EQ(ranges.size(), 2u + 6u * static_cast<size_t>(count));
  }
}

TEST(SegmentLayout, HasRingsAndPartsOfUsableSizes) {
  for (int count = 2; count <= 64; ++count) {
    SCOPED_TRACE(count);
    const SegmentLayout layout(count);
    EXPECT_GE(layout.ring_bytes(), 4096u);
    EXPECT_EQ(layout.ring_bytes() & (layout.ring_bytes() - 1), 0u) << "no power of two";
    EXPECT_GT(layout.part_bytes(), 0u);
    EXPECT_EQ(layout.part_bytes() % kLine, 0u);
    EXPECT_LE(static_cast<size_t>(count) * layout.part_bytes(), kRoundBytes);
  }
}

TEST(AreaCursor, TakesWholeLinesWithinTheArea) {
  AreaCursor cursor;
  EXPECT_EQ(cursor.Take(1), 0u);
  EXPECT_EQ(cursor.Take(kLine), kLine);
  EXPECT_EQ(cursor.Take(kLine + 1), 2 * kLine);
  EXPECT_EQ(cursor.Take(0), 4 * kLine);
  EXPECT_EQ(cursor.Take(1), 4 * kLine);
}

TEST(AreaCursor, TakesNothingAgainThatOneOfTheLastFourTook) {
  std::mt19937 random(3);
  auto some_bytes = [&]() -> size_t {
    switch (random() % 4) {
      case 0:
        return kRoundBytes;
      case 1:
        return kRoundBytes - random() % 1000;
      case 2:
        return random() % 100;
      default:
        return random() % (kRoundBytes + 1);
    }
  };
  AreaCursor cursor;
  std::deque<Range> last;
  for (int i = 0; i < 100000; ++i) {
    const size_t bytes = some_bytes();
    const size_t begin = cursor.Take(bytes);
    ASSERT_EQ(begin % kLine, 0u);
    ASSERT_LE(begin + bytes, kAreaBytes);
    for (const Range& taken : last) {
      ASSERT_TRUE(begin >= taken.end || begin + bytes <= taken.begin)
          << "taking " << i << " of " << bytes << " bytes at " << begin << ", where " << taken.begin << " to "
          << taken.end << " was taken";
    }
    last.push_back({begin, begin + bytes, ""});
    if (last.size() > 4) last.pop_front();
  }
}

}  // namespace
}  // namespace tutti
