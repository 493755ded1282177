// Replica: the same training without Tutti, as the measure of the other.

#ifndef TUTTI_EXAMPLES_DIGITS_REPLICA_H_
#define TUTTI_EXAMPLES_DIGITS_REPLICA_H_

#include "absl/types/span.h"
#include "examples/digits/data.h"
#include "examples/digits/mlp.h"

namespace digits {

// A copy of the model that is trained in this process alone, on whole batches.
//
// The difference between two tensors is the largest |a[i] - b[i]|, relative to the largest |b[i]|; b is the replica's.
class Replica {
 public:
  Replica(const Mlp& model, float learning_rate);

  // Takes one step, and compares its gradients with those that the ranks have found together.
  void Step(absl::Span<const Sample> batch, absl::Span<const absl::Span<float>> found);

  // The largest over all parameters and steps.
  double gradient_difference() const { return gradient_difference_; }
  // The largest over all parameters of the model.
  double WeightDifference(const Mlp& model) const;

 private:
  Mlp model_;
  Momentum optimizer_;
  double gradient_difference_ = 0;
};

}  // namespace digits

#endif  // TUTTI_EXAMPLES_DIGITS_REPLICA_H_
