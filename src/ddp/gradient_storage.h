// GradientStorage: the memory of all gradients of a plan.
//
// Usually a parameter's view lies in the arena that is reduced. With 16-bit parameters that are reduced as float32
// there are two arenas of one layout: the views, and their sums over the micro-batches.
//
// Calls that name different parameters may come from different threads at once; nothing else is synchronised.

#ifndef TUTTI_SRC_DDP_GRADIENT_STORAGE_H_
#define TUTTI_SRC_DDP_GRADIENT_STORAGE_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "src/ddp/bucket_plan.h"
#include "tutti/buffer.h"
#include "tutti/process_group.h"
#include "tutti/tensor.h"

namespace tutti {

class GradientStorage {
 public:
  // `plan` must outlive the storage. All memory is zero.
  static absl::StatusOr<GradientStorage> Create(ProcessGroup& group, const BucketPlan& plan);

  // Where backward adds its gradients, and where the result is published.
  Tensor view(int parameter) const;
  // What is reduced.
  Tensor bucket(int bucket) const;

  void Clear(int parameter) const;
  // Adds the view to its sum and clears it, if it has a separate sum.
  void Accumulate(int parameter) const;
  // Rounds the sum into the view, if it has a separate sum.
  void Publish(int parameter) const;

  // The parameter adds nothing to its buckets: returns what its view holds, to be written back by PutBack if nobody
  // else adds anything either. Empty if the view does not lie in a bucket.
  std::vector<std::byte> SetAside(int parameter) const;
  void PutBack(int parameter, const std::vector<std::byte>& contents) const;

 private:
  struct Memory {
    Buffer views;
    Buffer sums;  // no bytes if the views are reduced themselves
  };

  explicit GradientStorage(const BucketPlan& plan) : plan_(&plan) {}
  bool HasSum(int parameter) const;
  Tensor sum(int parameter) const;

  const BucketPlan* plan_;
  std::vector<Memory> memory_;  // per arena
};

}  // namespace tutti

#endif  // TUTTI_SRC_DDP_GRADIENT_STORAGE_H_
