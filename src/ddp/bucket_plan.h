// BucketPlan: which elements of which gradients are reduced together, and in which order. Pure: depends on nothing but
// its arguments, so ranks with equal models have equal plans.
//
// Parameters are walked from the last registered to the first. Those of one type are packed without gaps into one
// arena; a bucket is a range of an arena. A parameter joins the open bucket of its type if it fits under the cap, and
// opens the next one otherwise; one that is larger than the cap is cut into buckets of its own. So a parameter lies
// either in one bucket, or in several that hold nothing else. The very first bucket has a cap of its own, which only a
// single parameter may exceed.
//
// Buckets are in the order in which the walk completes them.

#ifndef TUTTI_SRC_DDP_BUCKET_PLAN_H_
#define TUTTI_SRC_DDP_BUCKET_PLAN_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tutti/data_type.h"

namespace tutti {

struct BucketPlan {
  struct Arena {
    DataType type;       // of the parameters
    DataType reduce_as;  // of the elements that are reduced, which the caps are about
    size_t count;
  };
  // One per parameter. Offsets and counts are in elements of the arena.
  struct View {
    int arena;
    size_t offset;
    size_t count;
    // Its buckets: [first_bucket, end_bucket). None if it has no elements.
    int first_bucket;
    int end_bucket;
  };
  struct Bucket {
    int arena;
    size_t offset;
    size_t count;
    std::vector<int> parameters;  // in the order of the arena, at least one
  };

  std::vector<Arena> arenas;
  std::vector<View> views;
  std::vector<Bucket> buckets;  // in launch order
};

struct PlannedTensor {
  DataType type;
  size_t count;
};

struct PlanOptions {
  size_t bucket_bytes;
  size_t first_bucket_bytes;
  bool accumulate_in_fp32;  // reduce 16-bit types as float32
};

// kInvalidArgument if a bucket cannot hold one element.
absl::StatusOr<BucketPlan> MakeBucketPlan(absl::Span<const PlannedTensor> tensors, const PlanOptions& options);

}  // namespace tutti

#endif  // TUTTI_SRC_DDP_BUCKET_PLAN_H_
