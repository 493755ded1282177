// A ring within one process, so that ThreadSanitizer sees both of its sides.

#include "src/transport/shm/ring.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace tutti {
namespace {

class Ring {
 public:
  explicit Ring(size_t capacity) : memory_(capacity) {}
  RingMemory memory() { return {memory_.data(), memory_.size(), &written_, &read_}; }

 private:
  std::vector<std::byte> memory_;
  alignas(kLine) std::atomic<uint64_t> written_ = 0;
  alignas(kLine) std::atomic<uint64_t> read_ = 0;
};

struct Header {
  uint32_t number;
  uint32_t bytes;
};

std::byte ByteOf(uint32_t message, size_t index) { return static_cast<std::byte>(message * 37 + index); }

// The sizes of the messages, the same on both sides: mostly small, some larger than the ring.
class Sizes {
 public:
  explicit Sizes(size_t capacity) : capacity_(capacity) {}
  size_t most() const { return std::max<size_t>(3 * capacity_, 200); }
  uint32_t Next() {
    const uint32_t dice = random_() % 10000;
    if (dice < 5) return static_cast<uint32_t>(random_() % (3 * capacity_));
    if (dice < 100) return static_cast<uint32_t>(random_() % capacity_);
    return static_cast<uint32_t>(random_() % (dice < 2000 ? 200 : 40));
  }

 private:
  const size_t capacity_;
  std::mt19937 random_{7};
};

void WriteAll(RingWriter& writer, uint32_t messages, size_t capacity, const std::atomic<bool>& given_up) {
  Sizes sizes(capacity);
  std::vector<std::byte> content(sizes.most());
  for (uint32_t number = 0; number < messages; ++number) {
    const Header header = {.number = number, .bytes = sizes.Next()};
    while (writer.Room() < sizeof(header)) {
      if (given_up) return;
      std::this_thread::yield();
    }
    writer.Write(&header, sizeof(header));
    for (size_t i = 0; i < header.bytes; ++i) content[i] = ByteOf(number, i);
    for (size_t done = 0; done < header.bytes;) {
      const size_t count = std::min(writer.Room(), header.bytes - done);
      if (count == 0 && given_up) return;
      if (count == 0) std::this_thread::yield();
      writer.Write(content.data() + done, count);
      writer.Publish();
      done += count;
    }
    writer.EndMessage();
    writer.Publish();
  }
}

void ReadAll(RingReader& reader, uint32_t messages, size_t capacity) {
  Sizes sizes(capacity);
  std::vector<std::byte> content(sizes.most()), expected(sizes.most());
  for (uint32_t number = 0; number < messages; ++number) {
    while (reader.Available() < sizeof(Header)) std::this_thread::yield();
    Header header;
    reader.Read(&header, sizeof(header));
    ASSERT_EQ(header.number, number);
    ASSERT_EQ(header.bytes, sizes.Next());
    for (size_t done = 0; done < header.bytes;) {
      const size_t count = std::min(reader.Available(), header.bytes - done);
      ASSERT_FALSE(reader.IsBroken());
      if (count == 0) std::this_thread::yield();
      reader.Read(content.data() + done, count);
      reader.Publish();
      done += count;
    }
    reader.EndMessage();
    reader.Publish();
    for (size_t i = 0; i < header.bytes; ++i) expected[i] = ByteOf(number, i);
    ASSERT_EQ(std::memcmp(content.data(), expected.data(), header.bytes), 0) << "message " << number;
  }
}

void Carry(uint32_t messages, size_t capacity) {
  Ring ring(capacity);
  std::atomic<bool> given_up = false;
  std::thread other([&] {
    RingWriter writer(ring.memory());
    WriteAll(writer, messages, capacity, given_up);
  });
  RingReader reader(ring.memory());
  ReadAll(reader, messages, capacity);
  given_up = true;
  other.join();
}

TEST(Ring, CarriesAMillionMessagesFromOneThreadToAnother) { Carry(1000000, 4096); }

TEST(Ring, OfOneLineIsEnough) { Carry(10000, kLine); }

TEST(Ring, GoesOnAtItsBeginningFromAnyPlace) {
  constexpr size_t kCapacity = 4 * kLine;
  Ring ring(kCapacity);
  RingWriter writer(ring.memory());
  RingReader reader(ring.memory());
  std::mt19937 random(5);
  std::byte bytes[kCapacity];
  size_t written = 0, read = 0;
  for (int step = 0; step < 100000; ++step) {
    const size_t count = random() % (writer.Room() + 1);
    for (size_t i = 0; i < count; ++i) bytes[i] = ByteOf(0, written++ * 5 / 3);
    writer.Write(bytes, count);
    writer.Publish();
    const size_t taken = random() % (reader.Available() + 1);
    reader.Read(bytes, taken);
    reader.Publish();
    for (size_t i = 0; i < taken; ++i) ASSERT_EQ(bytes[i], ByteOf(0, read++ * 5 / 3)) << "byte " << read - 1;
  }
  EXPECT_GT(read, 100 * kCapacity);
}

TEST(Ring, HasRoomForItsCapacityUntilItIsRead) {
  constexpr size_t kCapacity = 4 * kLine;
  Ring ring(kCapacity);
  RingWriter writer(ring.memory());
  RingReader reader(ring.memory());
  std::byte bytes[kCapacity] = {};
  EXPECT_EQ(reader.Available(), 0u);
  EXPECT_EQ(writer.Room(), kCapacity);
  writer.Write(bytes, kCapacity);
  EXPECT_EQ(reader.Available(), 0u) << "not published";
  writer.Publish();
  EXPECT_EQ(writer.Room(), 0u);
  EXPECT_EQ(reader.Available(), kCapacity);
  reader.Read(bytes, kLine + 1);
  EXPECT_EQ(writer.Room(), 0u) << "not published";
  reader.Publish();
  EXPECT_EQ(writer.Room(), kLine) << "whole lines";
  EXPECT_EQ(writer.ReadByPeer(), kLine);
  EXPECT_EQ(reader.Available(), kCapacity - kLine - 1);
}

TEST(Ring, BeginsEachMessageOnALineOfItsOwn) {
  Ring ring(4 * kLine);
  RingWriter writer(ring.memory());
  RingReader reader(ring.memory());
  for (uint64_t i = 1; i <= 100; ++i) {
    const char sent = static_cast<char>(i);
    writer.Write(&sent, 1);
    writer.EndMessage();
    writer.Publish();
    EXPECT_EQ(writer.position(), i * kLine);
    char got = 0;
    ASSERT_GE(reader.Available(), 1u);
    reader.Read(&got, 1);
    reader.EndMessage();
    reader.Publish();
    EXPECT_EQ(got, sent);
    EXPECT_EQ(writer.ReadByPeer(), i * kLine);
  }
}

TEST(Ring, NoticesAWriterThatIsNone) {
  Ring ring(4 * kLine);
  RingReader reader(ring.memory());
  ring.memory().written->store(4 * kLine);
  EXPECT_EQ(reader.Available(), 4 * kLine);
  EXPECT_FALSE(reader.IsBroken());
  RingReader other(ring.memory());
  ring.memory().written->store(4 * kLine + 1);
  EXPECT_GT(other.Available(), 4 * kLine);
  EXPECT_TRUE(other.IsBroken());
}

}  // namespace
}  // namespace tutti
