// The collectives that move blocks, and reduce to a root: every type, even and uneven blocks, every root, against what
// is written down here by hand.

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/groups.h"
#include "tests/support/numbers.h"
#include "tutti/process_group.h"

namespace tutti {
namespace {

using testing::HasSubstr;

// What lies at an index of the block that one rank has for another: any bytes, different everywhere.
unsigned char Byte(int from, int to, size_t index) {
  const size_t x = static_cast<size_t>(from) * 131 + static_cast<size_t>(to) * 31 + index * 7 + (index >> 8);
  return static_cast<unsigned char>(x);
}

using Bytes = std::vector<unsigned char>;

Tensor ToTensor(Bytes& bytes, DataType type) { return {bytes.data(), bytes.size() / ByteSize(type), type}; }

class Blocks : public testing::TestWithParam<WireAndSize> {
 protected:
  void Make(absl::string_view selection = "") {
    TestGroupOptions options;
    options.engine.selection = *ParseSelectionTable(selection);
    groups_ = MakeGroups(GetParam().wire, size(), options);
  }
  int size() const { return GetParam().size; }
  size_t n() const { return static_cast<size_t>(size()); }
  std::vector<size_t> Counts() const { return {0, 1, n() - 1, n(), 7, 70001}; }

  // Uneven, some of them empty, one of several segments.
  std::vector<size_t> UnevenCounts(size_t large) const {
    std::vector<size_t> counts;
    for (size_t r = 0; r < n(); ++r) counts.push_back(r % 3 == 1 ? 0 : r == n() - 1 ? large : 5 * r + 1);
    return counts;
  }

  Bytes Block(int from, int to, size_t count, DataType type) const {
    Bytes bytes(count * ByteSize(type));
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = Byte(from, to, i);
    return bytes;
  }
  // The blocks of all ranks, or for all ranks, one after the other.
  Bytes Gathered(const std::vector<size_t>& counts, DataType type, int to) const {
    Bytes all;
    for (int from = 0; from < size(); ++from) {
      const Bytes block = Block(from, to, counts[static_cast<size_t>(from)], type);
      all.insert(all.end(), block.begin(), block.end());
    }
    return all;
  }
  Bytes Outgoing(int from, const std::vector<size_t>& counts, DataType type) const {
    Bytes all;
    for (int to = 0; to < size(); ++to) {
      const Bytes block = Block(from, to, counts[static_cast<size_t>(to)], type);
      all.insert(all.end(), block.begin(), block.end());
    }
    return all;
  }
  std::vector<size_t> Even(size_t count) const { return std::vector<size_t>(n(), count); }

  TestGroups groups_;
};

TEST_P(Blocks, EveryTypeIsGatheredScatteredAndExchanged) {
  Make();
  OnEachRank(size(), [&](int rank) {
    for (int code = 0; code < kDataTypeCount; ++code) {
      const auto type = static_cast<DataType>(code);
      const int root = code % size();
      Bytes mine = Block(rank, 0, 11, type);
      Bytes gathered(rank == root ? 11 * n() * ByteSize(type) : 0);
      ASSERT_EQ(groups_[rank].Gather(ToTensor(mine, type), ToTensor(gathered, type), root).Wait(), absl::OkStatus());
      if (rank == root) {
        ASSERT_EQ(gathered, Gathered(Even(11), type, 0)) << Name(type);
      }

      Bytes all = rank == root ? Outgoing(root, Even(11), type) : Bytes();
      Bytes part(11 * ByteSize(type));
      ASSERT_EQ(groups_[rank].Scatter(ToTensor(all, type), ToTensor(part, type), root).Wait(), absl::OkStatus());
      ASSERT_EQ(part, Block(root, rank, 11, type)) << Name(type);

      Bytes outgoing = Outgoing(rank, Even(11), type);
      Bytes incoming(outgoing.size());
      ASSERT_EQ(groups_[rank].AllToAll(ToTensor(outgoing, type), ToTensor(incoming, type)).Wait(), absl::OkStatus());
      ASSERT_EQ(incoming, Gathered(Even(11), type, rank)) << Name(type);
    }
  });
}

TEST_P(Blocks, EverySizeAlgorithmAndRoot) {
  for (const char* selection : {"", "gather = tree; scatter = tree; all-to-all = bruck; all-gather = bruck",
                                "all-gather = ring; broadcast = direct chunk=4K; gather = tree chunk=4K; "
                                "scatter = direct chunk=4K; all-to-all = direct chunk=4K"}) {
    SCOPED_TRACE(selection);
    Make(selection);
    OnEachRank(size(), [&](int rank) {
      const DataType type = DataType::kInt16;
      for (const size_t count : Counts()) {
        for (int root = 0; root < size(); root += 1 + size() / 4) {
          // In place on the root.
          Bytes gathered = rank == root ? Bytes(count * n() * 2) : Block(rank, 0, count, type);
          const Bytes own = Block(rank, 0, count, type);
          const size_t place = rank == root ? static_cast<size_t>(rank) * count : 0;
          std::copy(own.begin(), own.end(), gathered.begin() + static_cast<std::ptrdiff_t>(place * 2));
          const Tensor whole = ToTensor(gathered, type);
          const Tensor block(gathered.data() + place * 2, count, type);
          ASSERT_EQ(groups_[rank].Gather(block, whole, root).Wait(), absl::OkStatus());
          if (rank == root) {
            ASSERT_EQ(gathered, Gathered(Even(count), type, 0)) << count;
          }

          Bytes all = rank == root ? Outgoing(root, Even(count), type) : Bytes(count * 2);
          ASSERT_EQ(
              groups_[rank].Scatter(ToTensor(all, type), Tensor(all.data() + place * 2, count, type), root).Wait(),
              absl::OkStatus());
          const Bytes expected = Block(root, rank, count, type);
          ASSERT_TRUE(
              std::equal(expected.begin(), expected.end(), all.begin() + static_cast<std::ptrdiff_t>(place * 2)));

          Bytes data = Block(rank, 3, count, type);
          ASSERT_EQ(groups_[rank].Broadcast(ToTensor(data, type), root).Wait(), absl::OkStatus());
          ASSERT_EQ(data, Block(root, 3, count, type));
        }
        Bytes outgoing = Outgoing(rank, Even(count), type);
        Bytes incoming(outgoing.size());
        Bytes gathered(outgoing.size());
        Bytes mine = Block(rank, 1, count, type);
        Work exchange = groups_[rank].AllToAll(ToTensor(outgoing, type), ToTensor(incoming, type));
        Work gather = groups_[rank].AllGather(ToTensor(mine, type), ToTensor(gathered, type));
        ASSERT_EQ(gather.Wait(), absl::OkStatus());
        ASSERT_EQ(exchange.Wait(), absl::OkStatus());
        ASSERT_EQ(incoming, Gathered(Even(count), type, rank));
        ASSERT_EQ(gathered, Gathered(Even(count), type, 1));
      }
    });
  }
}

TEST_P(Blocks, UnevenBlocksOfSeveralSegmentsAndNone) {
  for (const char* selection : {"",
                                "all-gather = bruck chunk=1K; gather = direct chunk=1K; scatter = direct chunk=1K; "
                                "all-to-all = direct chunk=1K; reduce-scatter = direct chunk=1K"}) {
    Make(selection);
    OnEachRank(size(), [&](int rank) {
      const DataType type = DataType::kFloat32;
      const auto own = static_cast<size_t>(rank);
      for (const size_t large : {size_t{0}, size_t{3}, size_t{5000}}) {
        const std::vector<size_t> counts = UnevenCounts(large);
        const size_t total = std::accumulate(counts.begin(), counts.end(), size_t{0});
        Bytes mine = Block(rank, 0, counts[own], type);
        Bytes gathered(total * 4);
        ASSERT_EQ(groups_[rank].AllGatherV(ToTensor(mine, type), ToTensor(gathered, type), counts).Wait(),
                  absl::OkStatus());
        ASSERT_EQ(gathered, Gathered(counts, type, 0));

        for (int root = 0; root < size(); ++root) {
          std::fill(gathered.begin(), gathered.end(), 0);
          Bytes nothing;
          ASSERT_EQ(groups_[rank]
                        .GatherV(ToTensor(mine, type), ToTensor(rank == root ? gathered : nothing, type), counts, root)
                        .Wait(),
                    absl::OkStatus());
          if (rank == root) {
            ASSERT_EQ(gathered, Gathered(counts, type, 0));
          }
          Bytes all = rank == root ? Outgoing(root, counts, type) : Bytes();
          Bytes part(counts[own] * 4);
          // Only the root's counts matter.
          ASSERT_EQ(groups_[rank]
                        .ScatterV(ToTensor(all, type), ToTensor(part, type),
                                  rank == root ? absl::MakeConstSpan(counts) : absl::Span<const size_t>(), root)
                        .Wait(),
                    absl::OkStatus());
          ASSERT_EQ(part, Block(root, rank, counts[own], type));
        }

        // Rank r sends counts[r] + t elements to rank t.
        std::vector<size_t> to, from;
        for (size_t other = 0; other < n(); ++other) {
          to.push_back(counts[own] + other);
          from.push_back(counts[other] + own);
        }
        Bytes outgoing = Outgoing(rank, to, type);
        Bytes incoming(std::accumulate(from.begin(), from.end(), size_t{0}) * 4);
        ASSERT_EQ(groups_[rank].AllToAllV(ToTensor(outgoing, type), to, ToTensor(incoming, type), from).Wait(),
                  absl::OkStatus());
        ASSERT_EQ(incoming, Gathered(from, type, rank));

        std::vector<float> values(total), sums(counts[own]);
        std::iota(values.begin(), values.end(), static_cast<float>(rank));
        ASSERT_EQ(groups_[rank].ReduceScatterV(absl::MakeConstSpan(values), absl::MakeSpan(sums), counts).Wait(),
                  absl::OkStatus());
        const size_t first = std::accumulate(counts.begin(), counts.begin() + rank, size_t{0});
        for (size_t i = 0; i < sums.size(); ++i) {
          ASSERT_EQ(sums[i], static_cast<float>((first + i) * n() + n() * (n() - 1) / 2));
        }
      }
    });
  }
}

TEST_P(Blocks, ReducesToEveryRootByEveryAlgorithmAndNowhereElse) {
  for (const char* selection : {"", "reduce = gather chunk=4K", "reduce = tree chunk=4K", "reduce = direct chunk=4K"}) {
    SCOPED_TRACE(selection);
    Make(selection);
    for (const DataType type : {DataType::kFloat32, DataType::kBFloat16, DataType::kInt8}) {
      OnEachRank(size(), [&](int rank) {
        for (const size_t count : Counts()) {
          // The same bits as all-reduce, which is tested by itself.
          const Numbers input = Numbers::Random(type, count, 77u + static_cast<uint64_t>(rank));
          Numbers everywhere(type, count);
          ASSERT_EQ(groups_[rank].AllReduce(input.tensor(), everywhere.tensor(), {.op = ReduceOp::kAverage}).Wait(),
                    absl::OkStatus());
          for (int root = 0; root < size(); root += 1 + size() / 4) {
            Numbers in_place = input;
            Numbers output = Numbers::Constant(type, count, 3);
            Work first = groups_[rank].Reduce(input.tensor(), output.tensor(), root, {.op = ReduceOp::kAverage});
            Work second = groups_[rank].Reduce(in_place.tensor(), in_place.tensor(), root, {.op = ReduceOp::kAverage});
            ASSERT_EQ(second.Wait(), absl::OkStatus());
            ASSERT_EQ(first.Wait(), absl::OkStatus());
            ASSERT_TRUE(output == (rank == root ? everywhere : Numbers::Constant(type, count, 3)));
            ASSERT_TRUE(in_place == (rank == root ? everywhere : input));
          }
        }
      });
    }
  }
}

TEST_P(Blocks, DifferentCountsOfOneBlockAreAnErrorWithBothNumbers) {
  if (size() == 1) return;
  Make();
  std::vector<absl::Status> statuses(n());
  OnEachRank(size(), [&](int rank) {
    // Rank 0 sends 2,000,003 elements to rank 1, which expects 3 of them.
    std::vector<size_t> to(n(), 1), from(n(), 1);
    if (rank == 0) to[1] = 2000003;
    if (rank == 1) from[0] = 3;
    Bytes outgoing(std::accumulate(to.begin(), to.end(), size_t{0}));
    Bytes incoming(std::accumulate(from.begin(), from.end(), size_t{0}));
    statuses[static_cast<size_t>(rank)] =
        groups_[rank]
            .AllToAllV(ToTensor(outgoing, DataType::kUInt8), to, ToTensor(incoming, DataType::kUInt8), from,
                       {.timeout = absl::Seconds(20)})
            .Wait();
    // Without a control plane, only this tells the others, at the latest when they next wait for rank 1.
    if (rank == 1) groups_.ranks[1] = nullptr;
    absl::Status& status = statuses[static_cast<size_t>(rank)];
    if (status.ok()) status = groups_[rank].Barrier({.timeout = absl::Seconds(20)}).Wait();
  });
  EXPECT_THAT(std::string(statuses[1].message()), HasSubstr("rank 0 sends 2000003 bytes to rank 1, which expects 3"));
  EXPECT_FALSE(statuses[0].ok());
}

TEST_P(Blocks, BadArgumentsAreRefusedBeforeAnythingIsSent) {
  Make();
  OnEachRank(size(), [&](int rank) {
    ProcessGroup& group = groups_[rank];
    std::vector<float> small(n()), large(2 * n());
    const auto refused = [](Work work) {
      const absl::Status status = work.Wait();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
      return std::string(status.message());
    };
    EXPECT_THAT(refused(group.Gather(absl::MakeConstSpan(small), absl::MakeSpan(small), size())),
                HasSubstr(absl::StrCat("root ", size(), " is not a rank")));
    EXPECT_THAT(refused(group.AllToAll(absl::MakeConstSpan(small), absl::MakeSpan(large))), HasSubstr("same multiple"));
    EXPECT_THAT(refused(group.AllToAll(absl::MakeConstSpan(small), absl::MakeSpan(small))), HasSubstr("overlap"));
    EXPECT_THAT(refused(group.AllGatherV(absl::MakeConstSpan(small), absl::MakeSpan(large), {})),
                HasSubstr("one for each"));
    std::vector<size_t> counts(n(), 1);
    EXPECT_THAT(refused(group.AllGatherV(absl::MakeConstSpan(small).first(1), absl::MakeSpan(large), counts)),
                HasSubstr("does not add up"));
    counts[0] = SIZE_MAX;  // the sum would wrap around
    EXPECT_THAT(refused(group.ReduceScatterV(absl::MakeConstSpan(small), absl::MakeSpan(large).first(1), counts)),
                HasSubstr("does not add up"));
    EXPECT_EQ(group.Barrier().Wait(), absl::OkStatus());
  });
}

TEST_P(Blocks, WorkDescribesWhatItTakes) {
  Make("all-to-all = direct chunk=8K");
  OnEachRank(size(), [&](int rank) {
    std::vector<float> input(10000 * n()), output(10000 * n());
    Work work = groups_[rank].AllToAll(absl::MakeConstSpan(input), absl::MakeSpan(output));
    ASSERT_EQ(work.Wait(), absl::OkStatus());
    EXPECT_EQ(
        work.Describe(),
        "all-to-all of 10000 float32: direct in messages of up to 8192 bytes, 1 socket per peer (TUTTI_SELECTION)");
  });
}

INSTANTIATE_TEST_SUITE_P(Wires, Blocks, testing::ValuesIn(WiresAndSizes()),
                         [](const auto& each) { return Name(each.param); });

}  // namespace
}  // namespace tutti
