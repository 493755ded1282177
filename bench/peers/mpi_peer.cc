// The driver of Open MPI and of MPICH: this file is built once against each of them.

#include <mpi.h>

#include "bench/peers/peer.h"

namespace {

class MpiPeer : public tutti::Peer {
 public:
  MpiPeer() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::function<void()> PrepareAllReduce(absl::Span<float> data) override {
    return [data] {
      MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(data.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    };
  }

  void MaxOverRanks(absl::Span<double> values) override {
    MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  }

  void Barrier() override { MPI_Barrier(MPI_COMM_WORLD); }

 private:
  int rank_ = 0, size_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);  // errors end the program from here on, as is MPI's default
  MpiPeer peer;
  const int exit_status = tutti::RunPeer(peer, argc, argv);
  MPI_Finalize();
  return exit_status;
}
