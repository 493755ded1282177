#include "src/transport/shm/segment.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

constexpr size_t kPage = 4096;

Fd Duplicate(int descriptor) { return Fd(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0)); }

// Another mapping of it, as a neighbour has.
Segment Attached(const Segment& segment) {
  return Segment::Attach(Duplicate(segment.descriptor()), segment.bytes()).value();
}

bool Holds(const Segment& segment, uint8_t value) {
  return std::all_of(segment.data(), segment.data() + segment.bytes(),
                     [&](std::byte each) { return each == std::byte{value}; });
}

void Fill(const Segment& segment, uint8_t value) {
  std::fill(segment.data(), segment.data() + segment.bytes(), std::byte{value});
}

TEST(Segment, IsOfWholePagesAndZero) {
  const Segment segment = Segment::Create(kPage + 1).value();
  EXPECT_EQ(segment.bytes(), 2 * kPage);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(segment.data()) % kPage, 0u);
  EXPECT_TRUE(Holds(segment, 0));
}

TEST(Segment, OfNoBytesIsNothing) {
  Segment segment = Segment::Create(0).value();
  EXPECT_EQ(segment.data(), nullptr);
  EXPECT_EQ(segment.bytes(), 0u);
  EXPECT_TRUE(segment.MakePrivate().ok());
}

TEST(Segment, KeepsItsSizeForGood) {
  const Segment segment = Segment::Create(4 * kPage).value();
  for (const off_t bytes : {off_t{0}, off_t{kPage}, off_t{5 * kPage}}) {
    EXPECT_EQ(::ftruncate(segment.descriptor(), bytes), -1) << bytes;
    EXPECT_EQ(errno, EPERM);
  }
  const auto one = static_cast<char>(1);
  EXPECT_EQ(::pwrite(segment.descriptor(), &one, 1, 4 * kPage), -1);
  // Nor can a neighbour seal it against writing.
  EXPECT_EQ(::fcntl(segment.descriptor(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1);
}

TEST(Segment, HasAllItsMemoryBeforeItIsUsed) {
  constexpr size_t kBytes = size_t{4} << 20;
  const Segment segment = Segment::Create(kBytes).value();
  struct stat status = {};
  ASSERT_EQ(::fstat(segment.descriptor(), &status), 0);
  EXPECT_GE(static_cast<size_t>(status.st_blocks) * 512, kBytes);
}

TEST(Segment, ShowsEachSideWhatTheOtherWrites) {
  const Segment segment = Segment::Create(2 * kPage).value();
  const Segment theirs = Attached(segment);
  EXPECT_NE(segment.data(), theirs.data());
  EXPECT_EQ(theirs.bytes(), segment.bytes());
  Fill(segment, 1);
  EXPECT_TRUE(Holds(theirs, 1));
  Fill(theirs, 2);
  EXPECT_TRUE(Holds(segment, 2));
}

TEST(Segment, OutlivesWhoCreatedIt) {
  Segment segment = Segment::Create(kPage).value();
  const Segment theirs = Attached(segment);
  Fill(segment, 7);
  segment = Segment();
  EXPECT_TRUE(Holds(theirs, 7));
}

TEST(Segment, MovesWithItsMapping) {
  Segment segment = Segment::Create(kPage).value();
  std::byte* const data = segment.data();
  Segment other(std::move(segment));
  EXPECT_EQ(other.data(), data);
  segment = std::move(other);
  EXPECT_EQ(segment.data(), data);
  EXPECT_TRUE(Holds(segment, 0));
}

TEST(Segment, MadePrivateStaysWhereItIsAndIsNoLongerShared) {
  Segment segment = Segment::Create(3 * kPage).value();
  const Segment theirs = Attached(segment);
  std::byte* const data = segment.data();
  Fill(theirs, 3);
  ASSERT_TRUE(segment.MakePrivate().ok());
  EXPECT_EQ(segment.data(), data);
  EXPECT_TRUE(Holds(segment, 3));
  Fill(theirs, 4);
  EXPECT_TRUE(Holds(segment, 3));
  Fill(segment, 5);
  EXPECT_TRUE(Holds(theirs, 4));
}

// Descriptors that a neighbour could pass by mistake, or to do harm.
Fd MemoryFile(size_t bytes, int seals) {
  Fd file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(::fcntl(file.get(), F_ADD_SEALS, seals), 0);
  return file;
}

TEST(Segment, IsAttachedOnlyIfItsSizeIsSealedAndAsExpected) {
  const Segment segment = Segment::Create(2 * kPage).value();
  struct Case {
    std::string what;
    Fd descriptor;
    size_t bytes;
  };
  std::vector<Case> cases;
  cases.push_back({"no descriptor", Fd(), kPage});
  cases.push_back({"no memory", Fd(::open("/dev/zero", O_RDWR | O_CLOEXEC)), kPage});
  cases.push_back({"not sealed", MemoryFile(kPage, 0), kPage});
  cases.push_back({"may shrink", MemoryFile(kPage, F_SEAL_GROW), kPage});
  cases.push_back({"may grow", MemoryFile(kPage, F_SEAL_SHRINK), kPage});
  cases.push_back({"larger", Duplicate(segment.descriptor()), kPage});
  cases.push_back({"smaller", Duplicate(segment.descriptor()), 3 * kPage});
  cases.push_back({"of no bytes", MemoryFile(0, F_SEAL_GROW | F_SEAL_SHRINK), 0});
  for (Case& each : cases) {
    const absl::Status status = Segment::Attach(std::move(each.descriptor), each.bytes).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << each.what;
    EXPECT_THAT(std::string(status.message()), HasSubstr("no sealed segment of " + std::to_string(each.bytes)));
  }
  EXPECT_TRUE(Segment::Attach(MemoryFile(kPage, F_SEAL_GROW | F_SEAL_SHRINK), kPage).ok());
}

// While it lives, no file of this process may grow beyond `bytes`. Exceeding that is a signal, which kills.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_ = {};
};

TEST(Segment, BeyondTheLimitOfFileSizesIsAnErrorThatSaysSo) {
  const FileSizeLimit limit(3 * kPage + 1);
  EXPECT_TRUE(Segment::Create(3 * kPage).ok());
  for (const size_t bytes : {3 * kPage + 1, 100 * kPage}) {
    const absl::Status status = Segment::Create(bytes).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("cannot allocate " + std::to_string(bytes) + " bytes"), HasSubstr("ulimit -f")));
  }
}

TEST(Segment, LargerThanTheMachineIsAnErrorAtOnce) {
  const FileSizeLimit limit(kPage);  // so that nothing is taken if it is not noticed
  for (const size_t bytes : {std::numeric_limits<size_t>::max(), std::numeric_limits<size_t>::max() / 2,
                             std::numeric_limits<size_t>::max() / 2 - kPage, size_t{1} << 50}) {
    const absl::Status status = Segment::Create(bytes).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(status.message()), HasSubstr("this machine has "));
  }
}

}  // namespace
}  // namespace tutti
