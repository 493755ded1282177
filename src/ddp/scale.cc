#include "src/ddp/scale.h"

#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "src/base/status_macros.h"

namespace tutti {

absl::string_view Name(ScaleMode mode) {
  switch (mode) {
    case ScaleMode::kMean:
      return "mean";
    case ScaleMode::kMeanOverRanks:
      return "mean-over-ranks";
    case ScaleMode::kSum:
      return "sum";
    case ScaleMode::kWeighted:
      return "weighted";
  }
  return "unknown";
}

absl::Status CheckWeights(ScaleMode mode, const WindowOptions& options) {
  const std::vector<double>& weights = options.weights;
  if (mode != ScaleMode::kWeighted) {
    if (weights.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("BeginWindow: weights are for scale mode weighted, not ", Name(mode)));
  }
  if (weights.size() != static_cast<size_t>(options.micro_batches)) {
    return absl::InvalidArgumentError(absl::StrCat("BeginWindow: ", weights.size(), " weights for ",
                                                   options.micro_batches, " micro-batches; scale mode weighted needs ",
                                                   "one for each"));
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    if (std::isfinite(weights[i]) && weights[i] >= 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("BeginWindow: the weight of micro-batch ", i + 1, " is ", weights[i],
                                                   "; weights are finite and not negative"));
  }
  return absl::OkStatus();
}

double DivisorOf(ScaleMode mode, int world_size, int micro_batches) {
  if (mode == ScaleMode::kMean) return static_cast<double>(world_size) * micro_batches;
  if (mode == ScaleMode::kMeanOverRanks) return world_size;
  return 1;
}

void WeightExchange::Start(ProcessGroup& group, const WindowOptions& options, absl::Duration timeout) {
  mine_ = {.weight = std::accumulate(options.weights.begin(), options.weights.end(), 0.0),
           .micro_batches = static_cast<double>(options.micro_batches)};
  shares_.assign(group.size(), {});
  work_ = group.AllGather({&mine_, 2, DataType::kFloat64}, {shares_.data(), 2 * shares_.size(), DataType::kFloat64},
                          {.timeout = timeout, .background = true});
}

absl::StatusOr<double> WeightExchange::Wait() {
  TUTTI_RETURN_IF_ERROR(work_.Wait());
  double total = 0;
  for (size_t rank = 0; rank < shares_.size(); ++rank) {
    total += shares_[rank].weight;
    if (shares_[rank].micro_batches != shares_[0].micro_batches) {
      return absl::FailedPreconditionError(
          absl::StrCat("rank 0 has declared ", shares_[0].micro_batches, " micro-batches for this window, rank ", rank,
                       " ", shares_[rank].micro_batches, "; all ranks need the same number"));
    }
  }
  // float32 and narrower gradients are divided in fp32.
  const bool divides = std::isnormal(static_cast<float>(total));
  if (total == 0 || divides) return total;
  return absl::InvalidArgumentError(
      absl::StrCat("the weights of this window add up to ", total, ", which is outside the range of float32"));
}

}  // namespace tutti
