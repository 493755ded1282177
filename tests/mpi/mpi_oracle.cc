// Whether Tutti and MPI, called by the same processes with the same inputs, get the same results: every collective that
// both have, for every type and operator that MPI has too. Integers must be equal; floats may differ by the rounding of
// another order of additions.
//
// Started by mpirun; ends with status 0 if all agree, and otherwise says where they do not.

#include <mpi.h>
#include <stdlib.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/numbers.h"
#include "tutti/process_group.h"

namespace tutti {
namespace {

struct TypePair {
  DataType type;
  MPI_Datatype mpi;
};
struct OpPair {
  ReduceOp op;
  MPI_Op mpi;
};

class Oracle {
 public:
  explicit Oracle(ProcessGroup& group) : group_(group), n_(static_cast<size_t>(group.size())) {}

  int failures() const { return failures_; }

  void Reductions(const TypePair& type, const OpPair& op, size_t count) {
    const std::string what =
        absl::StrCat(Name(type.type), " ", Name(op.op), " of ", count, " elements on rank ", group_.rank());
    const bool bits = op.op == ReduceOp::kBitAnd || op.op == ReduceOp::kBitOr || op.op == ReduceOp::kBitXor;
    if (bits && IsFloatingPoint(type.type)) return;
    const Numbers input = Numbers::Random(type.type, count * n_, 5u + static_cast<uint64_t>(group_.rank()));
    const auto part = static_cast<size_t>(group_.rank()) * count;
    const int root = static_cast<int>(count % n_);
    Numbers mine(type.type, count * n_), theirs(type.type, count * n_);

    MPI_Allreduce(input.tensor().data(), theirs.tensor().data(), static_cast<int>(count * n_), type.mpi, op.mpi,
                  MPI_COMM_WORLD);
    Check(group_.AllReduce(input.tensor(), mine.tensor(), {.op = op.op}), input, mine, theirs, "all-reduce of " + what);
    Numbers in_place = input;
    Check(group_.AllReduce(in_place.tensor(), {.op = op.op}), input, in_place, theirs,
          "in place, all-reduce of " + what);

    Numbers my_block(type.type, count), their_block(type.type, count);
    MPI_Reduce_scatter_block(input.tensor().data(), their_block.tensor().data(), static_cast<int>(count), type.mpi,
                             op.mpi, MPI_COMM_WORLD);
    Check(group_.ReduceScatter(input.tensor(), my_block.tensor(), {.op = op.op}), input, my_block, their_block,
          "reduce-scatter of " + what);
    MPI_Reduce(input.part(part, count).data(), their_block.tensor().data(), static_cast<int>(count), type.mpi, op.mpi,
               root, MPI_COMM_WORLD);
    Work reduce = group_.Reduce(input.part(part, count), my_block.tensor(), root, {.op = op.op});
    if (group_.rank() == root) {
      Check(std::move(reduce), input, my_block, their_block, "reduce of " + what);
    } else {
      Check(std::move(reduce), input, input, input, "reduce of " + what);
    }
  }

  void Moves(const TypePair& type, size_t count) {
    const std::string what = absl::StrCat(Name(type.type), ", ", count, " elements, on rank ", group_.rank());
    const int root = static_cast<int>(count % n_), c = static_cast<int>(count);
    const Numbers blocks = Numbers::Random(type.type, count * n_, 9u + static_cast<uint64_t>(group_.rank()));
    const Numbers block = Numbers::Random(type.type, count, 19u + static_cast<uint64_t>(group_.rank()));
    Numbers mine(type.type, count * n_), theirs(type.type, count * n_);
    Numbers my_block = block, their_block = block;

    MPI_Allgather(block.tensor().data(), c, type.mpi, theirs.tensor().data(), c, type.mpi, MPI_COMM_WORLD);
    ExpectEqual(group_.AllGather(block.tensor(), mine.tensor()), mine, theirs, "all-gather of " + what);
    MPI_Alltoall(blocks.tensor().data(), c, type.mpi, theirs.tensor().data(), c, type.mpi, MPI_COMM_WORLD);
    Work exchange = group_.AllToAll(blocks.tensor(), mine.tensor());
    ExpectEqual(std::move(exchange), mine, theirs, "all-to-all of " + what);
    MPI_Bcast(their_block.tensor().data(), c, type.mpi, root, MPI_COMM_WORLD);
    ExpectEqual(group_.Broadcast(my_block.tensor(), root), my_block, their_block, "broadcast of " + what);
    MPI_Scatter(blocks.tensor().data(), c, type.mpi, their_block.tensor().data(), c, type.mpi, root, MPI_COMM_WORLD);
    ExpectEqual(group_.Scatter(blocks.tensor(), my_block.tensor(), root), my_block, their_block, "scatter of " + what);
    MPI_Gather(block.tensor().data(), c, type.mpi, theirs.tensor().data(), c, type.mpi, root, MPI_COMM_WORLD);
    Work gather = group_.Gather(block.tensor(), mine.tensor(), root);
    ExpectEqual(std::move(gather), mine, theirs, "gather of " + what);
  }

  // Rank r has r * step blocks' worth of elements: none on rank 0.
  void UnevenMoves(size_t step) {
    std::vector<size_t> counts;
    std::vector<int> mpi_counts, starts;
    for (size_t r = 0; r < n_; ++r) {
      starts.push_back(std::accumulate(mpi_counts.begin(), mpi_counts.end(), 0));
      counts.push_back(r * step);
      mpi_counts.push_back(static_cast<int>(r * step));
    }
    const size_t total = std::accumulate(counts.begin(), counts.end(), size_t{0});
    const auto rank = static_cast<size_t>(group_.rank());
    const std::string what = absl::StrCat("uneven blocks of ", step, " elements and more, on rank ", rank);
    const Numbers block = Numbers::Random(DataType::kInt32, counts[rank], 3 + rank);
    Numbers mine(DataType::kInt32, total), theirs(DataType::kInt32, total);
    MPI_Allgatherv(block.tensor().data(), mpi_counts[rank], MPI_INT32_T, theirs.tensor().data(), mpi_counts.data(),
                   starts.data(), MPI_INT32_T, MPI_COMM_WORLD);
    ExpectEqual(group_.AllGatherV(block.tensor(), mine.tensor(), counts), mine, theirs, "all-gather of " + what);

    // counts[r] go to rank r, so that as many come from everybody as this rank's own count.
    const std::vector<size_t> incoming(n_, counts[rank]);
    std::vector<int> mpi_incoming(n_, mpi_counts[rank]), incoming_starts;
    for (size_t r = 0; r < n_; ++r) incoming_starts.push_back(static_cast<int>(r * counts[rank]));
    const Numbers outgoing = Numbers::Random(DataType::kInt32, total, 13 + rank);
    Numbers my_incoming(DataType::kInt32, n_ * counts[rank]), their_incoming(DataType::kInt32, n_ * counts[rank]);
    MPI_Alltoallv(outgoing.tensor().data(), mpi_counts.data(), starts.data(), MPI_INT32_T,
                  their_incoming.tensor().data(), mpi_incoming.data(), incoming_starts.data(), MPI_INT32_T,
                  MPI_COMM_WORLD);
    ExpectEqual(group_.AllToAllV(outgoing.tensor(), counts, my_incoming.tensor(), incoming), my_incoming,
                their_incoming, "all-to-all of " + what);
    Numbers my_block(DataType::kInt32, counts[rank]), their_block(DataType::kInt32, counts[rank]);
    MPI_Reduce_scatter(outgoing.tensor().data(), their_block.tensor().data(), mpi_counts.data(), MPI_INT32_T, MPI_SUM,
                       MPI_COMM_WORLD);
    ExpectEqual(group_.ReduceScatterV(outgoing.tensor(), my_block.tensor(), counts), my_block, their_block,
                "reduce-scatter of " + what);
  }

 private:
  // Bit for bit for integers; for floats, within what n - 1 roundings of the largest partial result may do.
  void Check(Work work, const Numbers& input, const Numbers& mine, const Numbers& theirs, const std::string& what) {
    const absl::Status status = work.Wait();
    if (!status.ok()) return Fail(absl::StrCat(what, ": ", status.ToString()));
    if (!IsFloatingPoint(mine.type())) return mine == theirs ? void() : Fail(what);
    double largest = 0;
    for (size_t i = 0; i < input.count(); ++i) largest = std::max(largest, std::abs(input.Value(i)));
    for (size_t i = 0; i < mine.count(); ++i) {
      const double scale = std::max({std::abs(mine.Value(i)), std::abs(theirs.Value(i)), largest * 4});
      const double bound = 4 * UnitInLastPlace(mine.type(), scale);
      if (std::abs(mine.Value(i) - theirs.Value(i)) > bound) {
        return Fail(absl::StrCat(what, ", element ", i, ": ", mine.Value(i), " and MPI ", theirs.Value(i)));
      }
    }
  }

  void ExpectEqual(Work work, const Numbers& mine, const Numbers& theirs, const std::string& what) {
    const absl::Status status = work.Wait();
    if (!status.ok()) return Fail(absl::StrCat(what, ": ", status.ToString()));
    if (!(mine == theirs)) Fail(what);
  }
  void Fail(const std::string& what) {
    if (++failures_ <= 10) std::fprintf(stderr, "differs from MPI: %s\n", what.c_str());
  }

  ProcessGroup& group_;
  const size_t n_;
  int failures_ = 0;
};

int Compare(ProcessGroup& group) {
  const TypePair types[] = {{DataType::kInt8, MPI_INT8_T},   {DataType::kUInt8, MPI_UINT8_T},
                            {DataType::kInt16, MPI_INT16_T}, {DataType::kUInt16, MPI_UINT16_T},
                            {DataType::kInt32, MPI_INT32_T}, {DataType::kUInt32, MPI_UINT32_T},
                            {DataType::kInt64, MPI_INT64_T}, {DataType::kUInt64, MPI_UINT64_T},
                            {DataType::kFloat32, MPI_FLOAT}, {DataType::kFloat64, MPI_DOUBLE}};
  const OpPair ops[] = {{ReduceOp::kSum, MPI_SUM},    {ReduceOp::kProduct, MPI_PROD}, {ReduceOp::kMin, MPI_MIN},
                        {ReduceOp::kMax, MPI_MAX},    {ReduceOp::kBitAnd, MPI_BAND},  {ReduceOp::kBitOr, MPI_BOR},
                        {ReduceOp::kBitXor, MPI_BXOR}};
  Oracle oracle(group);
  for (const TypePair& type : types) {
    for (const size_t count : {0, 1, 3, 4, 7, 100003}) {
      for (const OpPair& op : ops) oracle.Reductions(type, op, count);
      oracle.Moves(type, count);
    }
  }
  for (const size_t step : {1, 7, 100003}) oracle.UnevenMoves(step);
  return oracle.failures();
}

// A directory in which the ranks meet, made by rank 0.
std::string MeetingPlace(int rank) {
  char path[] = "/tmp/tutti_mpi_oracle_XXXXXX";
  if (rank == 0 && ::mkdtemp(path) == nullptr) return "";
  MPI_Bcast(path, sizeof(path), MPI_CHAR, 0, MPI_COMM_WORLD);
  return path;
}

int Run() {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const std::string place = MeetingPlace(rank);
  ProcessGroupOptions options;
  options.init_method = absl::StrCat("file://", place, "/store");
  options.rank = rank;
  options.world_size = size;
  options.timeout = absl::Seconds(60);
  auto group = ProcessGroup::Create(options);
  int failures = 1;
  if (group.ok()) {
    failures = Compare(**group);
    group->reset();
  } else {
    std::fprintf(stderr, "rank %d: %s\n", rank, group.status().ToString().c_str());
  }
  MPI_Barrier(MPI_COMM_WORLD);
  std::error_code ignored;
  if (rank == 0) std::filesystem::remove_all(place, ignored);
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int status = tutti::Run();
  MPI_Finalize();
  return status;
}
