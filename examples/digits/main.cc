// Trains a network on handwritten digits, with any number of ranks: tutti-run -n 4 digits --verify
//
// README.md explains the options and the output.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "examples/digits/data.h"
#include "examples/digits/mlp.h"
#include "examples/digits/replica.h"
#include "tutti/tutti.h"

namespace digits {
namespace {

constexpr uint32_t kSeed = 1;
const std::vector<int> kWidths = {kPixels, 128, 64, kClasses};

struct Options {
  int epochs = 15;
  int batch = 64;  // samples of all ranks together
  int accumulate = 2;
  float learning_rate = 0.1f;
  std::string data = DIGITS_CSV;
  bool verify = false;
};

absl::StatusOr<Options> ParseOptions(absl::Span<char* const> arguments) {
  Options options;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const absl::string_view name = arguments[i];
    if (name == "--verify") {
      options.verify = true;
      continue;
    }
    const absl::string_view value = i + 1 < arguments.size() ? arguments[++i] : "";
    const auto is_count = [&](int& count) { return absl::SimpleAtoi(value, &count) && count >= 1 && count <= 1000000; };
    if (!(name == "--epochs" && is_count(options.epochs)) && !(name == "--batch" && is_count(options.batch)) &&
        !(name == "--accumulate" && is_count(options.accumulate)) &&
        !(name == "--learning_rate" && absl::SimpleAtof(value, &options.learning_rate)) &&
        !(name == "--data" && !(options.data = std::string(value)).empty())) {
      return absl::InvalidArgumentError(absl::StrCat("\"", name, " ", value, "\": expected --epochs, --batch or ",
                                                     "--accumulate N, --learning_rate X, --data FILE, or --verify"));
    }
  }
  return options;
}

// What the steps have cost in communication.
struct Cost {
  size_t bytes = 0;
  int collectives = 0;
  absl::Duration exposed, window;
  double least_divisor = INFINITY, greatest_divisor = 0;

  void Add(const tutti::StepReport& report) {
    bytes += report.bytes;
    collectives += report.collectives;
    exposed += report.exposed;
    window += report.window;
    least_divisor = std::min(least_divisor, report.divisor);
    greatest_divisor = std::max(greatest_divisor, report.divisor);
  }
};

class Trainer {
 public:
  Trainer(const Options& options, tutti::ProcessGroup& group, Data data)
      : options_(options),
        group_(group),
        data_(std::move(data)),
        model_(kWidths, random_),
        optimizer_(model_, options.learning_rate) {}

  absl::Status Train() {
    if (absl::Status status = Prepare(); !status.ok()) return status;
    for (int epoch = 1; epoch <= options_.epochs; ++epoch) {
      const absl::StatusOr<double> loss = TrainEpoch();
      if (!loss.ok()) return loss.status();
      if (group_.rank() == 0) {
        std::printf("epoch %2d  loss %.4f  accuracy %.4f\n", epoch, *loss, model_.Accuracy(data_.test));
      }
    }
    if (group_.rank() == 0) Report();
    return absl::OkStatus();
  }

 private:
  absl::Status Prepare() {
    std::vector<tutti::Parameter> parameters;
    for (int p = 0; p < model_.parameter_count(); ++p) {
      // All ranks start from the same weights. They do so by their seed here; with a checkpoint they would not.
      tutti::Tensor weights = absl::MakeSpan(model_.values(p));
      if (absl::Status status = group_.Broadcast(weights, 0).Wait(); !status.ok()) return status;
      parameters.push_back(
          {.name = model_.name(p), .shape = model_.shape(p), .storage = weights.data(), .strides = {}});
    }
    // Small buckets, for a small model: the last layers travel while backward is at the first.
    absl::StatusOr<std::unique_ptr<tutti::GradientBucketer>> bucketer = tutti::GradientBucketer::Create(
        group_, std::move(parameters),
        {.scale = tutti::ScaleMode::kWeighted, .bucket_bytes = 32 << 10, .first_bucket_bytes = 8 << 10});
    if (!bucketer.ok()) return bucketer.status();
    bucketer_ = *std::move(bucketer);
    for (int p = 0; p < model_.parameter_count(); ++p) gradients_.push_back(bucketer_->gradient(p).as<float>());
    if (options_.verify && group_.rank() == 0) replica_.emplace(model_, options_.learning_rate);
    return absl::OkStatus();
  }

  // Returns the mean loss over the epoch's samples.
  absl::StatusOr<double> TrainEpoch() {
    Shuffle(data_.training, random_);
    const absl::Span<const Sample> samples = data_.training;
    double loss = 0;
    for (size_t begin = 0; begin < samples.size(); begin += options_.batch) {
      const absl::StatusOr<double> step_loss = Step(samples.subspan(begin, options_.batch));
      if (!step_loss.ok()) return step_loss.status();
      loss += *step_loss;
    }
    const absl::Status status = group_.AllReduce(absl::MakeSpan(&loss, 1)).Wait();
    if (!status.ok()) return status;
    return loss / static_cast<double>(samples.size());
  }

  // Returns the sum of the losses of this rank's samples.
  absl::StatusOr<double> Step(absl::Span<const Sample> batch) {
    std::vector<absl::Span<const Sample>> micro_batches;
    std::vector<double> weights;
    for (int a = 0; a < options_.accumulate; ++a) {
      micro_batches.push_back(
          Piece(batch, group_.rank() * options_.accumulate + a, group_.size() * options_.accumulate));
      weights.push_back(static_cast<double>(micro_batches.back().size()));
    }

    absl::Status status = bucketer_->BeginWindow({.micro_batches = options_.accumulate, .weights = weights});
    double loss = 0;
    for (absl::Span<const Sample> micro_batch : micro_batches) {
      status.Update(bucketer_->BeginMicroBatch());
      loss += model_.Backward(micro_batch, gradients_, [&](int p) { status.Update(bucketer_->MarkReady(p)); });
    }
    if (!status.ok()) return status;
    const absl::StatusOr<tutti::StepReport> report = bucketer_->Finish();
    if (!report.ok()) return report.status();

    cost_.Add(*report);
    if (replica_) replica_->Step(batch, gradients_);
    optimizer_.Step(model_, gradients_);
    return loss;
  }

  void Report() const {
    std::printf("communication: %zu bytes in %d all-reduces, exposed %.1f ms of %.1f ms; divisor %g to %g\n",
                cost_.bytes, cost_.collectives, absl::ToDoubleMilliseconds(cost_.exposed),
                absl::ToDoubleMilliseconds(cost_.window), cost_.least_divisor, cost_.greatest_divisor);
    std::printf("result ranks=%d accuracy=%.4f", group_.size(), model_.Accuracy(data_.test));
    if (replica_) {
      std::printf(" gradient_difference=%.1e weight_difference=%.1e", replica_->gradient_difference(),
                  replica_->WeightDifference(model_));
    }
    std::printf("\n");
  }

  const Options options_;
  tutti::ProcessGroup& group_;
  Data data_;
  std::mt19937 random_{kSeed};
  Mlp model_;
  Momentum optimizer_;
  std::unique_ptr<tutti::GradientBucketer> bucketer_;
  std::vector<absl::Span<float>> gradients_;  // views into the buckets
  std::optional<Replica> replica_;            // --verify, on rank 0
  Cost cost_;
};

absl::Status Run(absl::Span<char* const> arguments) {
  const absl::StatusOr<Options> options = ParseOptions(arguments);
  if (!options.ok()) return options.status();
  absl::StatusOr<Data> data = ReadData(options->data);
  if (!data.ok()) return data.status();
  const absl::StatusOr<std::unique_ptr<tutti::ProcessGroup>> group = tutti::ProcessGroup::Create();
  if (!group.ok()) return group.status();
  return Trainer(*options, **group, *std::move(data)).Train();
}

}  // namespace
}  // namespace digits

int main(int argc, char** argv) {
  const absl::Status status = digits::Run(absl::MakeConstSpan(argv + 1, argc - 1));
  if (!status.ok()) std::fprintf(stderr, "digits: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
