#include "examples/digits/replica.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace digits {
namespace {

double Difference(absl::Span<const float> a, absl::Span<const float> b) {
  double difference = 0, largest = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference = std::max(difference, std::abs(double{a[i]} - b[i]));
    largest = std::max(largest, std::abs(double{b[i]}));
  }
  return difference == 0 ? 0 : difference / largest;
}

}  // namespace

Replica::Replica(const Mlp& model, float learning_rate) : model_(model), optimizer_(model, learning_rate) {}

void Replica::Step(absl::Span<const Sample> batch, absl::Span<const absl::Span<float>> found) {
  std::vector<Values> gradients;
  for (int p = 0; p < model_.parameter_count(); ++p) gradients.emplace_back(model_.values(p).size());
  const std::vector<absl::Span<float>> views(gradients.begin(), gradients.end());
  model_.Backward(batch, views, [](int) {});
  for (int p = 0; p < model_.parameter_count(); ++p) {
    for (float& g : gradients[p]) g /= static_cast<float>(batch.size());
    gradient_difference_ = std::max(gradient_difference_, Difference(found[p], gradients[p]));
  }
  optimizer_.Step(model_, views);
}

double Replica::WeightDifference(const Mlp& model) const {
  double difference = 0;
  for (int p = 0; p < model.parameter_count(); ++p) {
    difference = std::max(difference, Difference(model.values(p), model_.values(p)));
  }
  return difference;
}

}  // namespace digits
