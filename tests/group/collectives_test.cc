// Every collective, against arithmetic done here by hand: types, operators, sizes, in and out of place, many in flight.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/groups.h"
#include "tests/support/numbers.h"
#include "tutti/process_group.h"

namespace tutti {
namespace {

constexpr DataType kTypes[] = {DataType::kInt8,    DataType::kUInt8,    DataType::kInt16,   DataType::kUInt16,
                               DataType::kInt32,   DataType::kUInt32,   DataType::kInt64,   DataType::kUInt64,
                               DataType::kFloat16, DataType::kBFloat16, DataType::kFloat32, DataType::kFloat64};

class Collectives : public testing::TestWithParam<WireAndSize> {
 protected:
  void SetUp() override { groups_ = MakeGroups(GetParam().wire, size()); }
  int size() const { return GetParam().size; }
  std::vector<size_t> Counts() const {
    const auto n = static_cast<size_t>(size());
    return {0, 1, n - 1, n, 7, 1000, 70001};
  }

  TestGroups groups_;
};

// Small whole numbers, different on each rank and element: every type holds them, and their sums over 9 ranks.
double Element(int rank, size_t index) { return static_cast<double>((static_cast<size_t>(rank) * 3 + index) % 7 + 1); }

Numbers Elements(DataType type, size_t count, int rank, size_t first = 0) {
  Numbers numbers(type, count);
  std::vector<Numbers> values;
  for (int value = 0; value < 8; ++value) values.push_back(Numbers::Constant(type, 1, value));
  for (size_t i = 0; i < count; ++i) {
    const Numbers& value = values[static_cast<size_t>(Element(rank, first + i))];
    std::copy_n(static_cast<const unsigned char*>(value.tensor().data()), ByteSize(type),
                static_cast<unsigned char*>(numbers.tensor().data()) + i * ByteSize(type));
  }
  return numbers;
}

double Expected(ReduceOp op, int size, size_t index) {
  double result = Element(0, index);
  for (int rank = 1; rank < size; ++rank) {
    const double x = Element(rank, index);
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kAverage:
        result += x;
        break;
      case ReduceOp::kProduct:
        result *= x;
        break;
      case ReduceOp::kMin:
        result = std::min(result, x);
        break;
      case ReduceOp::kMax:
        result = std::max(result, x);
        break;
      case ReduceOp::kBitAnd:
        result = static_cast<double>(static_cast<int>(result) & static_cast<int>(x));
        break;
      case ReduceOp::kBitOr:
        result = static_cast<double>(static_cast<int>(result) | static_cast<int>(x));
        break;
      case ReduceOp::kBitXor:
        result = static_cast<double>(static_cast<int>(result) ^ static_cast<int>(x));
        break;
    }
  }
  return op == ReduceOp::kAverage ? result / size : result;
}

// Whether `actual` is what the exact value `expected` becomes in the type: truncated and wrapped around for integers,
// at most one rounding away for floats (a product of 16-bit floats is kept in fp32 until the end).
bool Matches(DataType type, double actual, double expected) {
  if (!IsFloatingPoint(type)) {
    const auto whole = static_cast<int64_t>(expected);
    const int bits = static_cast<int>(8 * ByteSize(type));
    if (bits == 64) return actual == static_cast<double>(whole);
    const auto mask = (uint64_t{1} << bits) - 1;
    return (static_cast<uint64_t>(static_cast<int64_t>(actual)) & mask) == (static_cast<uint64_t>(whole) & mask);
  }
  if (type == DataType::kFloat16 && expected > 65520) return std::isinf(actual);
  return std::abs(actual - expected) <= UnitInLastPlace(type, expected);
}

bool IsBitOp(ReduceOp op) { return op == ReduceOp::kBitAnd || op == ReduceOp::kBitOr || op == ReduceOp::kBitXor; }

// All reductions of one type, operator and size that this rank calls, in and out of place, and their check.
class Reductions {
 public:
  Reductions(ProcessGroup& group, DataType type, ReduceOp op, size_t count)
      : group_(group), op_(op), root_(static_cast<int>(count) % group.size()), n_(static_cast<size_t>(group.size())) {
    input_ = Elements(type, count * n_, group.rank());
    for (Numbers* each : {&all_, &all_in_place_, &reduced_, &reduced_in_place_, &scattered_in_place_}) *each = input_;
    block_ = Numbers(type, count);
  }

  // Without waiting.
  void Start() {
    const size_t begin = static_cast<size_t>(group_.rank()) * block_.count();
    const ReduceOptions options = {.op = op_};
    works_.push_back(group_.AllReduce(input_.tensor(), all_.tensor(), options));
    works_.push_back(group_.AllReduce(all_in_place_.tensor(), options));
    works_.push_back(group_.Reduce(input_.tensor(), reduced_.tensor(), root_, options));
    works_.push_back(group_.Reduce(reduced_in_place_.tensor(), reduced_in_place_.tensor(), root_, options));
    works_.push_back(group_.ReduceScatter(input_.tensor(), block_.tensor(), options));
    works_.push_back(
        group_.ReduceScatter(scattered_in_place_.tensor(), scattered_in_place_.part(begin, block_.count()), options));
  }

  void Check() {
    for (size_t i = works_.size(); i-- > 0;) ASSERT_EQ(works_[i].Wait(), absl::OkStatus());
    const bool root = group_.rank() == root_;
    const size_t begin = static_cast<size_t>(group_.rank()) * block_.count();
    for (size_t i = 0; i < input_.count(); ++i) {
      ASSERT_TRUE(Matches(input_.type(), all_.Value(i), Expected(op_, group_.size(), i)))
          << all_.Value(i) << " instead of " << Expected(op_, group_.size(), i) << " at " << i << " of "
          << input_.count();
    }
    EXPECT_TRUE(all_in_place_ == all_);
    EXPECT_TRUE(reduced_ == (root ? all_ : input_));
    EXPECT_TRUE(reduced_in_place_ == (root ? all_ : input_));
    Numbers scattered = input_;
    for (size_t i = 0; i < block_.count(); ++i) ASSERT_EQ(block_.Value(i), all_.Value(begin + i));
    if (block_.count() > 0) {
      std::memcpy(scattered.part(begin, block_.count()).data(), block_.tensor().data(), block_.tensor().bytes());
    }
    EXPECT_TRUE(scattered_in_place_ == scattered);
  }

 private:
  ProcessGroup& group_;
  const ReduceOp op_;
  const int root_;
  const size_t n_;
  Numbers input_{DataType::kInt8, 0}, all_ = input_, all_in_place_ = input_, reduced_ = input_,
                                      reduced_in_place_ = input_, scattered_in_place_ = input_, block_ = input_;
  std::vector<Work> works_;
};

TEST_P(Collectives, ReductionsOfEveryTypeOperatorAndSizeAllInFlight) {
  const auto n = static_cast<size_t>(size());
  for (const DataType type : kTypes) {
    for (int code = 0; code < kReduceOpCount; ++code) {
      const auto op = static_cast<ReduceOp>(code);
      if (IsFloatingPoint(type) && IsBitOp(op)) continue;
      SCOPED_TRACE(std::string(Name(type)) + " " + std::string(Name(op)));
      OnEachRank(size(), [&](int rank) {
        std::vector<std::unique_ptr<Reductions>> reductions;
        for (const size_t count : {size_t{0}, size_t{1}, n - 1, n, size_t{7}, size_t{1000}}) {
          reductions.push_back(std::make_unique<Reductions>(groups_[rank], type, op, count));
        }
        for (auto& each : reductions) each->Start();
        for (auto& each : reductions) each->Check();
      });
    }
  }
}

TEST_P(Collectives, LargeReductionsOfEveryTypeAndOfEveryOperator) {
  const size_t count = TUTTI_LARGE_COUNT / static_cast<size_t>(size());
  const auto check = [&](DataType type, ReduceOp op) {
    SCOPED_TRACE(std::string(Name(type)) + " " + std::string(Name(op)));
    OnEachRank(size(), [&](int rank) {
      Reductions reductions(groups_[rank], type, op, count);
      reductions.Start();
      reductions.Check();
    });
  };
  for (const DataType type : kTypes) check(type, ReduceOp::kSum);
  for (int code = 1; code < kReduceOpCount; ++code) check(DataType::kInt32, static_cast<ReduceOp>(code));
}

TEST_P(Collectives, AllReduceOfEverySizeWithManyInFlight) {
  OnEachRank(size(), [&](int rank) {
    std::vector<Numbers> data;
    std::vector<Work> works;
    for (int round = 0; round < 3; ++round) {
      for (const size_t count : Counts()) data.push_back(Elements(DataType::kInt32, count, rank));
    }
    for (Numbers& numbers : data) {
      works.push_back(groups_[rank].AllReduce(numbers.tensor(), {.background = works.size() % 2 == 0}));
    }
    for (size_t i = works.size(); i-- > 0;) ASSERT_EQ(works[i].Wait(), absl::OkStatus());
    for (const Numbers& numbers : data) {
      for (size_t i = 0; i < numbers.count(); ++i) {
        ASSERT_EQ(numbers.Value(i), Expected(ReduceOp::kSum, size(), i)) << "count " << numbers.count();
      }
    }
  });
}

TEST_P(Collectives, ReduceScatterGivesEachRankItsBlock) {
  OnEachRank(size(), [&](int rank) {
    for (const size_t count : Counts()) {
      const size_t begin = static_cast<size_t>(rank) * count;
      Numbers input = Elements(DataType::kFloat32, count * static_cast<size_t>(size()), rank);
      Numbers output(DataType::kFloat32, count);
      ASSERT_EQ(groups_[rank].ReduceScatter(input.tensor(), output.tensor()).Wait(), absl::OkStatus());
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(output.Value(i), Expected(ReduceOp::kSum, size(), begin + i));
      ASSERT_EQ(groups_[rank].ReduceScatter(input.tensor(), input.part(begin, count)).Wait(), absl::OkStatus());
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(input.Value(begin + i), output.Value(i));
    }
  });
}

TEST_P(Collectives, AllGatherBringsAllBlocksToAll) {
  OnEachRank(size(), [&](int rank) {
    for (const size_t count : Counts()) {
      const size_t begin = static_cast<size_t>(rank) * count;
      const Numbers input = Elements(DataType::kInt16, count, rank, begin);
      Numbers output(DataType::kInt16, count * static_cast<size_t>(size()));
      Numbers in_place = output;
      std::copy_n(static_cast<const unsigned char*>(input.tensor().data()), input.tensor().bytes(),
                  static_cast<unsigned char*>(in_place.part(begin, count).data()));
      ASSERT_EQ(groups_[rank].AllGather(input.tensor(), output.tensor()).Wait(), absl::OkStatus());
      ASSERT_EQ(groups_[rank].AllGather(in_place.part(begin, count), in_place.tensor()).Wait(), absl::OkStatus());
      for (size_t i = 0; i < output.count(); ++i) ASSERT_EQ(output.Value(i), Element(static_cast<int>(i / count), i));
      ASSERT_TRUE(in_place == output);
    }
  });
}

TEST_P(Collectives, BroadcastFromEveryRoot) {
  OnEachRank(size(), [&](int rank) {
    for (int root = 0; root < size(); ++root) {
      for (const size_t count : Counts()) {
        Numbers data = Elements(DataType::kFloat64, count, rank);
        ASSERT_EQ(groups_[rank].Broadcast(data.tensor(), root).Wait(), absl::OkStatus());
        for (size_t i = 0; i < count; ++i) ASSERT_EQ(data.Value(i), Element(root, i));
      }
    }
  });
}

TEST_P(Collectives, BarrierWaitsForAll) {
  std::atomic<int> arrived{0};
  OnEachRank(size(), [&](int rank) {
    for (int round = 1; round <= 10; ++round) {
      ++arrived;
      ASSERT_EQ(groups_[rank].Barrier().Wait(), absl::OkStatus());
      ASSERT_GE(arrived.load(), round * size());
    }
  });
}

TEST_P(Collectives, SendAndRecvMatchInOrderWhateverElseGoesOn) {
  if (size() == 1) return;
  OnEachRank(size(), [&](int rank) {
    const int to = (rank + 1) % size();
    const int from = (rank + size() - 1) % size();
    std::vector<Numbers> outgoing, incoming;
    std::vector<Work> works;
    for (const size_t count : Counts()) {
      outgoing.push_back(Elements(DataType::kInt32, count, rank));
      incoming.emplace_back(DataType::kInt32, count);
    }
    Numbers reduced = Elements(DataType::kInt32, 100, rank);
    for (size_t i = 0; i < outgoing.size(); ++i) works.push_back(groups_[rank].Send(outgoing[i].tensor(), to));
    works.push_back(groups_[rank].AllReduce(reduced.tensor()));
    for (size_t i = 0; i < incoming.size(); ++i) works.push_back(groups_[rank].Recv(incoming[i].tensor(), from));
    for (Work& work : works) ASSERT_EQ(work.Wait(), absl::OkStatus());
    for (size_t i = 0; i < incoming.size(); ++i) {
      ASSERT_TRUE(incoming[i] == Elements(DataType::kInt32, incoming[i].count(), from));
    }
    for (size_t i = 0; i < 100; ++i) ASSERT_EQ(reduced.Value(i), Expected(ReduceOp::kSum, size(), i));
  });
}

TEST_P(Collectives, DivisorIsAppliedOnce) {
  OnEachRank(size(), [&](int rank) {
    Numbers sum = Numbers::Constant(DataType::kFloat32, 10, 6);
    ASSERT_EQ(groups_[rank].AllReduce(sum.tensor(), {.divisor = 4}).Wait(), absl::OkStatus());
    EXPECT_EQ(sum.Value(9), 6.0 * size() / 4);
    Numbers average = Numbers::Constant(DataType::kBFloat16, 10, 6);
    ASSERT_EQ(groups_[rank].AllReduce(average.tensor(), {.op = ReduceOp::kAverage, .divisor = 4}).Wait(),
              absl::OkStatus());
    EXPECT_EQ(average.Value(9), 1.5);
    Numbers whole = Numbers::Constant(DataType::kInt8, 10, -100);
    ASSERT_EQ(groups_[rank].AllReduce(whole.tensor(), {.op = ReduceOp::kAverage}).Wait(), absl::OkStatus());
    EXPECT_EQ(whole.Value(0), -100);
  });
}

TEST_P(Collectives, WorkCanBeWaitedForTwiceAndFromTwoThreads) {
  OnEachRank(size(), [&](int rank) {
    Numbers data = Elements(DataType::kFloat32, 50000, rank);
    Work work = groups_[rank].AllReduce(data.tensor(), {.background = true});
    Work copy = work;
    OnEachRank(2, [&](int) {
      Work mine = work;
      EXPECT_EQ(mine.Wait(), absl::OkStatus());
    });
    EXPECT_TRUE(work.Done());
    EXPECT_EQ(copy.Wait(), absl::OkStatus());
    EXPECT_EQ(data.Value(49999), Expected(ReduceOp::kSum, size(), 49999));
  });
}

TEST_P(Collectives, UnwaitedOperationsCompleteInTheBackground) {
  OnEachRank(size(), [&](int rank) {
    Numbers data = Elements(DataType::kFloat32, 1000, rank);
    { Work dropped = groups_[rank].AllReduce(data.tensor()); }
    ASSERT_EQ(groups_[rank].Barrier().Wait(), absl::OkStatus());  // ordered behind it
    EXPECT_EQ(data.Value(0), Expected(ReduceOp::kSum, size(), 0));
  });
}

TEST(CollectivesOverSeveralSockets, AllReduceOfEverySize) {
  for (const int size : {2, 3, 5}) {
    TestGroups groups = MakeGroups(Wire::kTcp, size, {.sockets_per_peer = 3});
    OnEachRank(size, [&](int rank) {
      for (const size_t count : {size_t{1}, size_t{3000001}}) {
        Numbers data = Elements(DataType::kFloat32, count, rank);
        Work work = groups[rank].AllReduce(data.tensor());
        ASSERT_EQ(work.Wait(), absl::OkStatus());
        EXPECT_EQ(work.Describe().find("3 sockets per peer") != std::string::npos, count > 1) << work.Describe();
        for (size_t i = 0; i < count; ++i) ASSERT_EQ(data.Value(i), Expected(ReduceOp::kSum, size, i));
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Wires, Collectives, testing::ValuesIn(WiresAndSizes()),
                         [](const auto& each) { return Name(each.param); });

}  // namespace
}  // namespace tutti
