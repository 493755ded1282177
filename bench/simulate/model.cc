#include "bench/simulate/model.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "bench/simulate/plan.h"
#include "src/base/status_macros.h"

namespace tutti {
namespace {

// An Ethernet frame with an MTU of 1500 occupies 1538 bytes of the line, preamble and gap included, and carries 1448
// bytes of a TCP stream with timestamps.
constexpr double UsPerByte(double gigabits) { return 8 / (gigabits * 1000) * 1538 / 1448; }

// A socket's send or receive with its share of the TCP stack: round numbers of the right size, not measured.
constexpr double kOverheadUs = 3;
// A thread copies some 10 GB/s between memory and socket, and reads some 12 GB/s of operands that it reduces: likewise.
constexpr double kCopyUsPerByte = 1 / 10e3;
constexpr double kReduceUsPerByte = 1 / 12e3;

// Half a round trip between kernel sockets through one switch, less the overheads: NICs moderate interrupts less the
// faster they are. Likewise.
constexpr CostModel Ethernet(double gigabits, double wire_latency_us) {
  return {.wire_latency_us = wire_latency_us,
          .send_overhead_us = kOverheadUs,
          .recv_overhead_us = kOverheadUs,
          .send_us_per_byte = UsPerByte(gigabits),
          .recv_us_per_byte = UsPerByte(gigabits),
          .copy_us_per_byte = kCopyUsPerByte,
          .reduce_us_per_byte = kReduceUsPerByte};
}

// With this, an all-reduce of 4 bytes over four ranks on two cores takes the 114 us that were measured, on an AMD EPYC;
// two ranks, which have a core each, take 9.
constexpr double kTurnUs = 8;
// A core fetches some 20 GB/s from the cache that it shares with others: a round number, chosen with measurements of 3,
// 4 and 8 ranks in view.
constexpr double kTurnUsPerByte = 1 / 20e3;

// There are no ports: the copies at both ends are all there is. To be calibrated, but for the turns, which two ranks do
// not take.
constexpr CostModel kLoopback = {.send_overhead_us = kOverheadUs,
                                 .recv_overhead_us = kOverheadUs,
                                 .copy_us_per_byte = kCopyUsPerByte,
                                 .reduce_us_per_byte = kReduceUsPerByte,
                                 .cores = 2,
                                 .turn_us = kTurnUs,
                                 .turn_us_per_byte = kTurnUsPerByte};

CostModel Scaled(CostModel costs, double overheads, double bytes) {
  for (double CostModel::*cost :
       {&CostModel::wire_latency_us, &CostModel::send_overhead_us, &CostModel::recv_overhead_us}) {
    costs.*cost *= overheads;
  }
  for (double CostModel::*cost : {&CostModel::send_us_per_byte, &CostModel::recv_us_per_byte,
                                  &CostModel::copy_us_per_byte, &CostModel::reduce_us_per_byte}) {
    costs.*cost *= bytes;
  }
  return costs;
}

}  // namespace

const std::vector<NamedModel>& NamedModels() {
  static const auto& models = *new std::vector<NamedModel>{
      {"10g", "10 Gbit/s Ethernet, a host per rank", Ethernet(10, 15)},
      {"25g", "25 Gbit/s Ethernet, a host per rank", Ethernet(25, 10)},
      {"100g", "100 Gbit/s Ethernet, a host per rank", Ethernet(100, 7)},
      {"loopback", "all ranks on one host of two cores", kLoopback},
  };
  return models;
}

absl::StatusOr<CostModel> Calibrate(const CostModel& costs, const MeasuredAllReduce& small,
                                    const MeasuredAllReduce& large) {
  // The small one depends almost on overheads alone, and the large one on bytes: correcting each by its own error
  // converges quickly.
  constexpr int kRounds = 100;
  constexpr double kClose = 1e-6;
  double overheads = 1, bytes = 1;
  for (int round = 0; round < kRounds; ++round) {
    const CostModel scaled = Scaled(costs, overheads, bytes);
    TUTTI_ASSIGN_OR_RETURN(const Prediction of_small, Predict(PlanOf(small), scaled));
    TUTTI_ASSIGN_OR_RETURN(const Prediction of_large, Predict(PlanOf(large), scaled));
    const double small_off = small.median_us / of_small.time_us;
    const double large_off = large.median_us / of_large.time_us;
    if (std::abs(small_off - 1) < kClose && std::abs(large_off - 1) < kClose) return scaled;
    overheads *= small_off;
    bytes *= large_off;
  }
  return absl::InvalidArgumentError(absl::StrCat("no costs predict both ", small.median_us, " us for ", small.bytes,
                                                 " bytes and ", large.median_us, " us for ", large.bytes, " bytes"));
}

}  // namespace tutti
