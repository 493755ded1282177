// The driver of Gloo over TCP.
//
//   RANK=... WORLD_SIZE=... gloo_peer ALGORITHM INTERFACE_OR_ADDRESS STORE BYTES ITERATIONS WARMUP_ITERATIONS
//
// ALGORITHM: ring or bcube of its function, or halving_doubling, the older class. INTERFACE: an interface's name, or an
// address of this rank. STORE: an empty folder that all ranks see.

#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/peers/peer.h"

namespace {

class GlooPeer : public tutti::Peer {
 public:
  GlooPeer(const std::string& algorithm, std::shared_ptr<gloo::Context> context)
      : algorithm_(algorithm), context_(std::move(context)) {}

  int rank() const override { return context_->rank; }
  int size() const override { return context_->size; }

  std::function<void()> PrepareAllReduce(absl::Span<float> data) override {
    if (algorithm_ == "halving_doubling") {
      auto all_reduce = std::make_shared<gloo::AllreduceHalvingDoubling<float>>(
          context_, std::vector<float*>{data.data()}, static_cast<int>(data.size()));
      return [all_reduce] { all_reduce->run(); };
    }
    auto options = std::make_shared<gloo::AllreduceOptions>(context_);
    using Algorithm = gloo::AllreduceOptions::Algorithm;
    options->setAlgorithm(algorithm_ == "bcube" ? Algorithm::BCUBE : Algorithm::RING);
    options->setOutput(data.data(), data.size());
    options->setReduceFunction(static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
    return [options] { gloo::allreduce(*options); };
  }

  void MaxOverRanks(absl::Span<double> values) override {
    gloo::AllreduceOptions options(context_);
    options.setOutput(values.data(), values.size());
    options.setReduceFunction(static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::max<double>));
    gloo::allreduce(options);
  }

  void Barrier() override {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }

 private:
  const std::string algorithm_;
  const std::shared_ptr<gloo::Context> context_;
};

int NumberFrom(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) throw std::invalid_argument(std::string(variable) + " is not set");
  return std::stoi(text);
}

std::shared_ptr<gloo::Context> Connect(const std::string& place, const std::string& store_path) {
  gloo::transport::tcp::attr attributes;
  const bool address = place.find_first_not_of("0123456789.:") == std::string::npos;
  (address ? attributes.hostname : attributes.iface) = place;
  std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(store_path);
  auto context = std::make_shared<gloo::rendezvous::Context>(NumberFrom("RANK"), NumberFrom("WORLD_SIZE"));
  context->setTimeout(std::chrono::seconds(30));
  context->connectFullMesh(store, device);
  return context;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string algorithm = argc > 1 ? argv[1] : "";
  if (argc != 7 || (algorithm != "ring" && algorithm != "bcube" && algorithm != "halving_doubling")) {
    std::fprintf(stderr,
                 "usage: gloo_peer ring|bcube|halving_doubling INTERFACE STORE BYTES ITERATIONS WARMUP_ITERATIONS\n");
    return 2;
  }
  try {
    GlooPeer peer(algorithm, Connect(argv[2], argv[3]));
    return tutti::RunPeer(peer, argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gloo_peer: %s\n", error.what());
    return 1;
  }
}
