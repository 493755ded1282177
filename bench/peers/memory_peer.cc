// No library: the all-reduce of two pinned processes over one piece of shared memory, with nothing around it but two
// counters that they spin on. What this machine's memory and caches allow.
//
//   memory_peer in-place|staged BYTES ITERATIONS WARMUP_ITERATIONS
//
// in-place: the data lies in shared memory; each process sums one half of both, and stores it to both. staged: the data
// is private; each process copies its own, piece by piece, to where the other can add it. What fits beside a counter
// goes there, either way.

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/numbers.h"
#include "bench/peers/peer.h"
#include "src/reduce/reduce.h"

namespace {

constexpr size_t kCacheLine = 64;
constexpr size_t kCellBytes = 128 << 10;  // the four of them fit into L2
constexpr size_t kDataAlignment = 2 << 20;

struct Cell {
  alignas(kCacheLine) std::atomic<uint64_t> epoch;
  std::byte beside[kCacheLine - sizeof epoch];
  std::byte data[kCellBytes];

  std::byte* room(size_t bytes) { return bytes <= sizeof beside ? beside : data; }
};

// All zero at first, as the kernel gives it.
struct Cells {
  Cell of_rank[2][2];
};

class MemoryPeer : public tutti::Peer {
 public:
  // `data`: in shared memory, for in-place; null for staged.
  MemoryPeer(int rank, Cells* cells, std::byte* data, size_t bytes)
      : rank_(rank), cells_(cells), shared_data_(data), shared_bytes_(bytes) {}

  int rank() const override { return rank_; }
  int size() const override { return 2; }

  std::shared_ptr<float> Allocate(size_t count) override {
    if (shared_data_ == nullptr) return Peer::Allocate(count);
    return {reinterpret_cast<float*>(DataOf(rank_)), [](float*) {}};
  }

  std::function<void()> PrepareAllReduce(absl::Span<float> data) override {
    const size_t bytes = data.size() * sizeof(float);
    if (shared_data_ != nullptr && bytes > sizeof Cell::beside) return [this, data] { SumInPlace(data.size()); };
    return [this, data] {
      ThroughCells(data.data(), data.size() * sizeof(float), [this](void* mine, const void* theirs, size_t part) {
        Sum(static_cast<float*>(mine), static_cast<const float*>(theirs), part / sizeof(float));
      });
    };
  }

  void MaxOverRanks(absl::Span<double> values) override {
    ThroughCells(values.data(), values.size() * sizeof(double), [](void* mine, const void* theirs, size_t part) {
      auto* a = static_cast<double*>(mine);
      auto* b = static_cast<const double*>(theirs);
      for (size_t i = 0; i < part / sizeof(double); ++i) a[i] = std::max(a[i], b[i]);
    });
  }

  void Barrier() override { Exchange(); }

 private:
  std::byte* DataOf(int rank) const { return shared_data_ + static_cast<size_t>(rank) * shared_bytes_; }

  Cell& CellOf(int rank) const { return cells_->of_rank[rank][epoch_ % 2]; }

  // Shows the other what this one has written, and sees what the other has. Cells are used in turns: that the other has
  // come to an epoch says that it has read the cell of the one before, which is written next.
  Cell& Exchange() {
    Cell& theirs = CellOf(1 - rank_);
    CellOf(rank_).epoch.store(epoch_, std::memory_order_release);
    for (unsigned spins = 1; theirs.epoch.load(std::memory_order_acquire) != epoch_; ++spins) {
      if (spins % 4096 == 0) ::sched_yield();
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
    ++epoch_;
    return theirs;
  }

  template <typename Combine>
  void ThroughCells(void* data, size_t bytes, const Combine& combine) {
    auto* next = static_cast<std::byte*>(data);
    while (bytes > 0) {
      const size_t part = std::min(bytes, kCellBytes);
      std::memcpy(CellOf(rank_).room(part), next, part);
      combine(next, Exchange().room(part), part);
      next += part;
      bytes -= part;
    }
  }

  void SumInPlace(size_t count) {
    auto* mine = reinterpret_cast<float*>(DataOf(rank_));
    auto* theirs = reinterpret_cast<float*>(DataOf(1 - rank_));
    const size_t middle = count / 2 / kFloatsOfLine * kFloatsOfLine;
    const size_t end = rank_ == 0 ? middle : count;
    Exchange();
    for (size_t i = rank_ == 0 ? 0 : middle; i < end; i += kBlock) {
      const size_t part = std::min(kBlock, end - i);
      Sum(mine + i, theirs + i, part);
      std::memcpy(theirs + i, mine + i, part * sizeof(float));
    }
    Exchange();
  }

  void Sum(float* mine, const float* theirs, size_t count) const {
    const void* const sources[] = {mine, theirs};
    kernels_.reduce(mine, sources, 2, count, 1.0);
  }

  static constexpr size_t kFloatsOfLine = kCacheLine / sizeof(float);
  static constexpr size_t kBlock = 1024;  // is still in L1 when it is stored for the second time
  const tutti::ReduceKernels kernels_ = tutti::KernelsFor(tutti::DataType::kFloat32, tutti::ReduceOp::kSum);
  const int rank_;
  Cells* const cells_;
  std::byte* const shared_data_;
  const size_t shared_bytes_;
  uint64_t epoch_ = 1;
};

// There is nobody to hand an error to.
void Check(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "memory_peer: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

// To the CPU with this number among those that the process may use, in turns.
void PinTo(int number) {
  cpu_set_t allowed, one;
  Check(::sched_getaffinity(0, sizeof allowed, &allowed) == 0, "sched_getaffinity");
  number %= CPU_COUNT(&allowed);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &allowed) || number-- > 0) ++cpu;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  Check(::sched_setaffinity(0, sizeof one, &one) == 0, "sched_setaffinity");
}

}  // namespace

int main(int argc, char** argv) {
  const bool in_place = argc == 5 && std::strcmp(argv[1], "in-place") == 0;
  uint64_t bytes = 0;
  if (argc != 5 || (!in_place && std::strcmp(argv[1], "staged") != 0) || !absl::SimpleAtoi(argv[2], &bytes)) {
    std::fprintf(stderr, "usage: memory_peer in-place|staged BYTES ITERATIONS WARMUP_ITERATIONS\n");
    return 2;
  }
  const auto aligned = [](size_t size) { return (size + kDataAlignment - 1) / kDataAlignment * kDataAlignment; };
  const size_t data_bytes = in_place ? aligned(bytes) : 0;
  const size_t total = aligned(sizeof(Cells)) + 2 * data_bytes;
  void* const memory = ::mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Check(memory != MAP_FAILED, "mmap");
  ::madvise(memory, total, MADV_HUGEPAGE);  // a wish
  auto* const data = in_place ? static_cast<std::byte*>(memory) + aligned(sizeof(Cells)) : nullptr;

  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  Check(child >= 0, "fork");
  if (child == 0) {
    Check(::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0, "prctl");
    if (::getppid() != parent) return 1;
  }
  const int rank = child == 0 ? 1 : 0;
  PinTo(rank);
  MemoryPeer peer(rank, static_cast<Cells*>(memory), data, data_bytes);
  const int exit_status = tutti::RunPeer(peer, argc, argv);
  if (child == 0) return exit_status;
  int child_status = 0;
  Check(::waitpid(child, &child_status, 0) == child, "waitpid");
  return exit_status != 0 || child_status != 0 ? 1 : 0;
}
