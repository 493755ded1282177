#include "bench/ddp_bench/model.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

class Builder {
 public:
  // A weight, and a bias per output.
  void Dense(const std::string& name, int64_t outputs, int64_t inputs) {
    Add(name, {outputs, inputs});
    Add(absl::StrCat(name, ".bias"), {outputs});
  }

  void Norm(const std::string& name, int64_t width) {
    Add(name, {width});
    Add(absl::StrCat(name, ".bias"), {width});
  }

  void Add(std::string name, std::vector<int64_t> shape) {
    model_.parameters.push_back({.name = std::move(name), .shape = std::move(shape)});
  }

  Model Build(double compute_milliseconds) && {
    model_.compute_milliseconds = compute_milliseconds;
    return std::move(model_);
  }

 private:
  Model model_;
};

Model MakeTransformer() {
  constexpr int64_t kWidth = 512, kVocabulary = 1868, kPositions = 1024, kLayers = 8;
  Builder builder;
  builder.Add("tokens", {kVocabulary, kWidth});
  builder.Add("positions", {kPositions, kWidth});
  builder.Norm("norm", kWidth);
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const std::string prefix = absl::StrCat("layer", layer, ".");
    builder.Norm(prefix + "norm1", kWidth);
    builder.Dense(prefix + "attention.in", 3 * kWidth, kWidth);
    builder.Dense(prefix + "attention.out", kWidth, kWidth);
    builder.Norm(prefix + "norm2", kWidth);
    builder.Dense(prefix + "mlp.in", 4 * kWidth, kWidth);
    builder.Dense(prefix + "mlp.out", kWidth, 4 * kWidth);
  }
  return std::move(builder).Build(150);
}

Model MakeManySmallLayers() {
  Builder builder;
  for (int layer = 0; layer < 100; ++layer) builder.Dense(absl::StrCat("dense", layer), 100, 99);
  return std::move(builder).Build(11);
}

}  // namespace

Model MakeModel(const std::string& name) { return name == "big" ? MakeTransformer() : MakeManySmallLayers(); }

size_t ElementCount(const Parameter& parameter) {
  size_t count = 1;
  for (const int64_t extent : parameter.shape) count *= static_cast<size_t>(extent);
  return count;
}

size_t ElementCount(const Model& model) {
  size_t count = 0;
  for (const Parameter& parameter : model.parameters) count += ElementCount(parameter);
  return count;
}

}  // namespace tutti
