// A multilayer perceptron with cross-entropy loss, and the optimizer for it.

#ifndef TUTTI_EXAMPLES_DIGITS_MLP_H_
#define TUTTI_EXAMPLES_DIGITS_MLP_H_

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "examples/digits/data.h"

namespace digits {

// One float per element of a parameter.
using Values = std::vector<float>;

// Fully connected layers with tanh between them: it is smooth, so that a rounding error stays as small as it is, while
// a ReLU could be on for one of two equal models and off for the other. Layer l has the parameters 2 l, its weights
// [outputs, inputs], and 2 l + 1, its biases [outputs]. Weights and gradients are fp32; what is in between is fp64.
class Mlp {
 public:
  // widths: inputs, hidden layers, classes.
  Mlp(std::vector<int> widths, std::mt19937& random);

  int parameter_count() const { return static_cast<int>(parameters_.size()); }
  std::string name(int parameter) const;
  std::vector<int64_t> shape(int parameter) const;
  Values& values(int parameter) { return parameters_[parameter]; }
  const Values& values(int parameter) const { return parameters_[parameter]; }

  // Returns the sum of the samples' losses, and adds its gradient with respect to parameter p to gradients[p]. From the
  // last parameter to the first, ready(p) is called as soon as gradients[p] is complete; also if there are no samples.
  double Backward(absl::Span<const Sample> samples, absl::Span<const absl::Span<float>> gradients,
                  const std::function<void(int parameter)>& ready) const;

  // Share of the samples whose label gets the highest score.
  double Accuracy(absl::Span<const Sample> samples) const;

 private:
  using Matrix = std::vector<double>;  // [samples, width]

  int layer_count() const { return static_cast<int>(widths_.size()) - 1; }
  // The input of each layer, and last the scores of the classes.
  std::vector<Matrix> Forward(absl::Span<const Sample> samples) const;
  Matrix ForwardLayer(int layer, const Matrix& input) const;
  // The gradient with respect to the layer's input, before the tanh that made it.
  Matrix BackwardLayer(int layer, const Matrix& input, const Matrix& output_gradient) const;
  void AddGradients(int layer, const Matrix& input, const Matrix& output_gradient, absl::Span<float> weights,
                    absl::Span<float> biases) const;

  const std::vector<int> widths_;
  std::vector<Values> parameters_;
};

// Stochastic gradient descent with momentum: v = momentum v + g, parameter -= learning rate v.
class Momentum {
 public:
  Momentum(const Mlp& model, float learning_rate);
  void Step(Mlp& model, absl::Span<const absl::Span<float>> gradients);

 private:
  const float learning_rate_;
  std::vector<Values> velocities_;
};

}  // namespace digits

#endif  // TUTTI_EXAMPLES_DIGITS_MLP_H_
