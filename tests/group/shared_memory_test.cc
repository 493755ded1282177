// All-reduce in shared memory: the same bits as over the other wires, wherever the operands lie; and what happens to
// the memory of the library when it ends, or when the group fails.

#include <atomic>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/groups.h"
#include "tests/support/numbers.h"
#include "tutti/process_group.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

constexpr DataType kAllTypes[] = {DataType::kInt8,    DataType::kUInt8,    DataType::kInt16,   DataType::kUInt16,
                                  DataType::kInt32,   DataType::kUInt32,   DataType::kInt64,   DataType::kUInt64,
                                  DataType::kFloat16, DataType::kBFloat16, DataType::kFloat32, DataType::kFloat64,
                                  DataType::kBool};

// Where a rank's operand lies.
enum class Memory { kOwn, kLibrary };

struct Placement {
  std::string name;
  bool in_place;
  std::vector<Memory> memory;  // by rank, round and round
};

// An operand of a rank, with its output.
class Operand {
 public:
  Operand(ProcessGroup& group, const Numbers& input, Memory memory, bool in_place) : input_(input), output_(input) {
    if (memory == Memory::kOwn) {
      if (!in_place) output_ = Numbers(input.type(), input.count());
      in_ = in_place ? ConstTensor(output_.tensor()) : ConstTensor(input_.tensor());
      out_ = output_.tensor();
      return;
    }
    const size_t bytes = input.count() * ByteSize(input.type());
    const size_t offset = 64;  // not at the beginning
    buffer_ = group.Allocate(2 * bytes + 2 * offset).value();
    out_ = buffer_.tensor(offset, input.count(), input.type());
    const Tensor other = buffer_.tensor(offset + bytes, input.count(), input.type());
    in_ = in_place ? ConstTensor(out_) : ConstTensor(other);
    if (bytes > 0) std::memcpy(const_cast<void*>(in_.data()), input.tensor().data(), bytes);
  }

  Work AllReduce(ProcessGroup& group) const { return group.AllReduce(in_, out_); }
  bool HasResult(const Numbers& expected) const {
    const size_t bytes = expected.count() * ByteSize(expected.type());
    return bytes == 0 || std::memcmp(out_.data(), expected.tensor().data(), bytes) == 0;
  }

 private:
  Numbers input_, output_;
  Buffer buffer_;
  ConstTensor in_;
  Tensor out_;
};

std::vector<Numbers> RandomInputs(int size, DataType type, size_t count) {
  std::vector<Numbers> inputs;
  for (int rank = 0; rank < size; ++rank) {
    inputs.push_back(Numbers::Random(type, count, 77u + static_cast<uint64_t>(rank)));
  }
  return inputs;
}

// By messages, over a simulated network.
Numbers Reference(const std::vector<Numbers>& inputs) {
  const int size = static_cast<int>(inputs.size());
  TestGroups groups = MakeGroups(Wire::kSim, size);
  std::vector<Numbers> outputs = inputs;
  OnEachRank(size, [&](int rank) {
    EXPECT_TRUE(groups[rank].AllReduce(outputs[static_cast<size_t>(rank)].tensor()).Wait().ok());
  });
  return outputs[0];
}

class SharedMemoryBits : public testing::TestWithParam<WireAndSize> {};

TEST_P(SharedMemoryBits, AreThoseOfMessagesWhereverOperandsLie) {
  const int size = GetParam().size;
  TestGroupOptions options;
  // Where there are several hosts: first within them, then between them, whatever the size.
  if (GetParam().wire == Wire::kTwoPerHost) {
    options.engine.selection = *ParseSelectionTable("all-reduce = hierarchical chunk=16K");
  }
  TestGroups groups = MakeGroups(GetParam().wire, size, options);
  const std::vector<Placement> placements = {
      {"own memory", true, {Memory::kOwn}},
      {"own memory, output apart", false, {Memory::kOwn}},
      {"library memory", true, {Memory::kLibrary}},
      {"library memory, output apart", false, {Memory::kLibrary}},
      {"mixed", true, {Memory::kLibrary, Memory::kOwn}},
  };
  for (const DataType type : kAllTypes) {
    for (const size_t count :
         {size_t{0}, size_t{1}, size_t{7}, size_t{1023}, size_t{4099}, size_t{TUTTI_LARGE_COUNT}}) {
      // Large ones take long; one narrow and one wide type stand for all.
      if (count > 5000 && type != DataType::kFloat32 && type != DataType::kBFloat16) continue;
      SCOPED_TRACE(testing::Message() << size << " ranks, " << count << " " << std::string(Name(type)));
      if (type == DataType::kBool) continue;  // has no sum
      const std::vector<Numbers> inputs = RandomInputs(size, type, count);
      const Numbers reference = Reference(inputs);
      OnEachRank(size, [&](int rank) {
        const auto r = static_cast<size_t>(rank);
        for (const Placement& placement : placements) {
          const Operand operand(groups[rank], inputs[r], placement.memory[r % placement.memory.size()],
                                placement.in_place);
          const absl::Status status = operand.AllReduce(groups[rank]).Wait();
          EXPECT_TRUE(status.ok()) << status;
          EXPECT_TRUE(operand.HasResult(reference)) << placement.name << ", rank " << rank;
        }
      });
    }
  }
}

std::vector<WireAndSize> Sizes() {
  std::vector<WireAndSize> all;
  for (int size = 2; size <= 9; ++size) all.push_back({Wire::kShm, size});
  for (const int size : {3, 4, 5, 6, 8}) all.push_back({Wire::kTwoPerHost, size});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Sizes, SharedMemoryBits, testing::ValuesIn(Sizes()),
                         [](const auto& each) { return Name(each.param); });

// Ranks that come late at every step of the protocol, and operations of all kinds in any order, several in flight.
TEST(SharedMemory, SurvivesDelaysBetweenAllItsSteps) {
  constexpr int kSize = 3;
  constexpr size_t kCounts[] = {1, 600, 5000, 120000};
  TestGroupOptions options;
  options.pause = [] {
    thread_local std::mt19937 random(std::random_device{}());
    const uint32_t dice = random() % 64;
    if (dice == 0) std::this_thread::yield();
    std::atomic<uint32_t> spent{0};
    while (dice < 8 && spent.fetch_add(1) < dice * 32) {
    }
  };
  TestGroups groups = MakeGroups(Wire::kShm, kSize, options);
  OnEachRank(kSize, [&](int rank) {
    std::mt19937 shared(5);  // the same choices on all ranks
    std::vector<Buffer> buffers;
    std::vector<std::vector<int64_t>> own(4, std::vector<int64_t>(kCounts[3]));
    for (int i = 0; i < 4; ++i) buffers.push_back(groups[rank].Allocate(kCounts[3] * sizeof(int64_t)).value());
    for (int done = 0; done < TUTTI_STRESS_OPERATIONS; done += 4) {
      std::vector<Work> works;
      std::vector<std::pair<int64_t*, size_t>> outputs;
      for (size_t i = 0; i < 4; ++i) {
        const uint32_t choice = shared();
        const size_t count = choice % 50 == 0 ? kCounts[3] : choice % 10 == 0 ? kCounts[2] : kCounts[choice % 2];
        auto* data = choice / 64 % 3 == 0 ? own[i].data() : static_cast<int64_t*>(buffers[i].data());
        for (size_t k = 0; k < count; ++k) data[k] = (rank + 1) * static_cast<int64_t>(k + i + 1);
        works.push_back(groups[rank].AllReduce(Tensor(data, count, DataType::kInt64)));
        outputs.emplace_back(data, count);
      }
      for (size_t i = 0; i < 4; ++i) {
        ASSERT_TRUE(works[i].Wait().ok()) << works[i].Wait();
        for (size_t k = 0; k < outputs[i].second; ++k) {
          ASSERT_EQ(outputs[i].first[k], 6 * static_cast<int64_t>(k + i + 1))
              << "operation " << done + static_cast<int>(i);
        }
      }
    }
  });
}

// Buffers end and others come, perhaps at the same addresses: neighbours must not take one for the other.
TEST(SharedMemory, BuffersComeAndGo) {
  constexpr size_t kCount = 100000;
  TestGroups groups = MakeGroups(Wire::kShm, 2);
  OnEachRank(2, [&](int rank) {
    for (int round = 0; round < 50; ++round) {
      Buffer buffer = groups[rank].Allocate(kCount * sizeof(float)).value();
      auto* data = static_cast<float*>(buffer.data());
      for (size_t i = 0; i < kCount; ++i) data[i] = static_cast<float>(round + rank);
      ASSERT_TRUE(groups[rank].AllReduce(absl::MakeSpan(data, kCount)).Wait().ok());
      for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(data[i], static_cast<float>(2 * round + 1));
    }
  });
}

TEST(SharedMemory, DifferentCallsAreNamedOnBothSides) {
  for (const size_t count : {size_t{4}, size_t{100000}}) {
    TestGroups groups = MakeGroups(Wire::kShm, 2);
    OnEachRank(2, [&](int rank) {
      std::vector<float> data(count + static_cast<size_t>(rank));
      const absl::Status status = groups[rank].AllReduce(absl::MakeSpan(data)).Wait();
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("called something else"));
    });
  }
}

// When an operation has failed, nobody writes to its memory any more; all else in the buffer stays as it is.
TEST(SharedMemory, IsLeftAloneAfterAFailure) {
  constexpr size_t kCount = 1 << 20;
  TestGroups groups = MakeGroups(Wire::kShm, 2);
  Buffer buffers[2];
  OnEachRank(2, [&](int rank) {
    buffers[rank] = groups[rank].Allocate(2 * kCount * sizeof(float)).value();
    auto* data = static_cast<float*>(buffers[rank].data());
    for (size_t i = 0; i < 2 * kCount; ++i) data[i] = 1.0f;
    EXPECT_TRUE(groups[rank].AllReduce(absl::MakeSpan(data, kCount)).Wait().ok());
    if (rank == 1) return;
    EXPECT_EQ(groups[0].AllReduce(absl::MakeSpan(data, kCount), {.timeout = absl::Milliseconds(50)}).Wait().code(),
              absl::StatusCode::kDeadlineExceeded);
    for (size_t i = 0; i < kCount; ++i) data[i] = 3.0f;
  });
  auto* late = static_cast<float*>(buffers[1].data());
  EXPECT_FALSE(groups[1].AllReduce(absl::MakeSpan(late, kCount)).Wait().ok());
  const auto* data = static_cast<const float*>(buffers[0].data());
  for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(data[i], 3.0f);
  for (size_t i = kCount; i < 2 * kCount; ++i) ASSERT_EQ(data[i], 1.0f);
}

}  // namespace
}  // namespace tutti
