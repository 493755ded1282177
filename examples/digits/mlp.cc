#include "examples/digits/mlp.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace digits {
namespace {

constexpr float kMomentum = 0.9f;

// From the scores of one sample to their loss; leaves the loss's gradient in place of the scores.
double CrossEntropy(absl::Span<double> scores, int label) {
  const double highest = *std::max_element(scores.begin(), scores.end());
  const double score = scores[label] - highest;
  double sum = 0;
  for (double& s : scores) sum += (s = std::exp(s - highest));
  for (double& s : scores) s /= sum;
  scores[label] -= 1;
  return std::log(sum) - score;
}

}  // namespace

Mlp::Mlp(std::vector<int> widths, std::mt19937& random) : widths_(std::move(widths)), parameters_(2 * layer_count()) {
  for (int layer = 0; layer < layer_count(); ++layer) {
    const int inputs = widths_[layer], outputs = widths_[layer + 1];
    const double limit = std::sqrt(3.0 / inputs);
    Values& weights = values(2 * layer);
    weights.resize(static_cast<size_t>(inputs) * outputs);
    for (float& w : weights) w = static_cast<float>(limit * (random() / 2147483648.0 - 1));
    values(2 * layer + 1).resize(outputs);
  }
}

std::string Mlp::name(int parameter) const {
  return absl::StrCat("layer", parameter / 2, parameter % 2 == 0 ? ".weight" : ".bias");
}

std::vector<int64_t> Mlp::shape(int parameter) const {
  const int64_t inputs = widths_[parameter / 2], outputs = widths_[parameter / 2 + 1];
  return parameter % 2 == 0 ? std::vector<int64_t>{outputs, inputs} : std::vector<int64_t>{outputs};
}

double Mlp::Backward(absl::Span<const Sample> samples, absl::Span<const absl::Span<float>> gradients,
                     const std::function<void(int parameter)>& ready) const {
  std::vector<Matrix> inputs = Forward(samples);
  Matrix gradient = std::move(inputs.back());
  double loss = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    loss += CrossEntropy(absl::MakeSpan(gradient).subspan(i * widths_.back(), widths_.back()), samples[i].label);
  }
  for (int layer = layer_count() - 1; layer >= 0; --layer) {
    AddGradients(layer, inputs[layer], gradient, gradients[2 * layer], gradients[2 * layer + 1]);
    ready(2 * layer + 1);
    ready(2 * layer);
    if (layer > 0) gradient = BackwardLayer(layer, inputs[layer], gradient);
  }
  return loss;
}

double Mlp::Accuracy(absl::Span<const Sample> samples) const {
  const Matrix scores = Forward(samples).back();
  int right = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto row = scores.begin() + static_cast<std::ptrdiff_t>(i) * widths_.back();
    right += std::max_element(row, row + widths_.back()) - row == samples[i].label;
  }
  return samples.empty() ? 0 : static_cast<double>(right) / static_cast<double>(samples.size());
}

std::vector<Mlp::Matrix> Mlp::Forward(absl::Span<const Sample> samples) const {
  std::vector<Matrix> inputs(1);
  for (const Sample& sample : samples) inputs[0].insert(inputs[0].end(), sample.pixels.begin(), sample.pixels.end());
  for (int layer = 0; layer < layer_count(); ++layer) {
    Matrix output = ForwardLayer(layer, inputs.back());
    if (layer + 1 < layer_count()) {
      for (double& x : output) x = std::tanh(x);
    }
    inputs.push_back(std::move(output));
  }
  return inputs;
}

Mlp::Matrix Mlp::ForwardLayer(int layer, const Matrix& input) const {
  const size_t inputs = widths_[layer], outputs = widths_[layer + 1], samples = input.size() / inputs;
  const Values &weights = values(2 * layer), &biases = values(2 * layer + 1);
  Matrix output(samples * outputs);
  for (size_t i = 0; i < samples; ++i) {
    for (size_t o = 0; o < outputs; ++o) {
      double sum = biases[o];
      for (size_t k = 0; k < inputs; ++k) sum += weights[o * inputs + k] * input[i * inputs + k];
      output[i * outputs + o] = sum;
    }
  }
  return output;
}

Mlp::Matrix Mlp::BackwardLayer(int layer, const Matrix& input, const Matrix& output_gradient) const {
  const size_t inputs = widths_[layer], outputs = widths_[layer + 1];
  const Values& weights = values(2 * layer);
  Matrix gradient(input.size());
  for (size_t i = 0; i < input.size() / inputs; ++i) {
    for (size_t o = 0; o < outputs; ++o) {
      const double g = output_gradient[i * outputs + o];
      for (size_t k = 0; k < inputs; ++k) gradient[i * inputs + k] += weights[o * inputs + k] * g;
    }
  }
  for (size_t i = 0; i < input.size(); ++i) gradient[i] *= 1 - input[i] * input[i];
  return gradient;
}

void Mlp::AddGradients(int layer, const Matrix& input, const Matrix& output_gradient, absl::Span<float> weights,
                       absl::Span<float> biases) const {
  const size_t inputs = widths_[layer], outputs = widths_[layer + 1];
  Matrix weight_sums(inputs * outputs), bias_sums(outputs);
  for (size_t i = 0; i < input.size() / inputs; ++i) {
    for (size_t o = 0; o < outputs; ++o) {
      const double g = output_gradient[i * outputs + o];
      bias_sums[o] += g;
      for (size_t k = 0; k < inputs; ++k) weight_sums[o * inputs + k] += g * input[i * inputs + k];
    }
  }
  for (size_t k = 0; k < weight_sums.size(); ++k) weights[k] += static_cast<float>(weight_sums[k]);
  for (size_t o = 0; o < outputs; ++o) biases[o] += static_cast<float>(bias_sums[o]);
}

Momentum::Momentum(const Mlp& model, float learning_rate) : learning_rate_(learning_rate) {
  for (int p = 0; p < model.parameter_count(); ++p) velocities_.emplace_back(model.values(p).size());
}

void Momentum::Step(Mlp& model, absl::Span<const absl::Span<float>> gradients) {
  for (int p = 0; p < model.parameter_count(); ++p) {
    Values &values = model.values(p), &velocity = velocities_[p];
    for (size_t i = 0; i < values.size(); ++i) {
      velocity[i] = kMomentum * velocity[i] + gradients[p][i];
      values[i] -= learning_rate_ * velocity[i];
    }
  }
}

}  // namespace digits
