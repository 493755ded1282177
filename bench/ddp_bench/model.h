// The models whose training is imitated: only the shapes of their parameters matter.

#ifndef TUTTI_BENCH_DDP_BENCH_MODEL_H_
#define TUTTI_BENCH_DDP_BENCH_MODEL_H_

#include <string>
#include <vector>

#include "tutti/gradient_bucketer.h"

namespace tutti {

struct Model {
  std::vector<Parameter> parameters;  // float32, in the order of the forward pass
  double compute_milliseconds = 0;    // of one step, unless something else is asked for
};

// "big": a transformer of 8 layers and width 512; 26.7 million elements in 100 tensors, 107 MB.
// "small": 100 dense layers of 99 inputs and 100 outputs; 1 million elements in 200 tensors.
// bench/peers/torch_ddp.py has the same two.
Model MakeModel(const std::string& name);

size_t ElementCount(const Parameter& parameter);
size_t ElementCount(const Model& model);

}  // namespace tutti

#endif  // TUTTI_BENCH_DDP_BENCH_MODEL_H_
