#include "src/ddp/bucket_plan.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/base/status_macros.h"

namespace tutti {
namespace {

class Planner {
 public:
  Planner(absl::Span<const PlannedTensor> tensors, const PlanOptions& options) : tensors_(tensors), options_(options) {
    plan_.views.resize(tensors.size());
  }

  absl::StatusOr<BucketPlan> Run() {
    for (size_t i = tensors_.size(); i-- > 0;) TUTTI_RETURN_IF_ERROR(Add(static_cast<int>(i)));
    // The walk goes down, so a bucket is complete at its lowest parameter. Pieces of one parameter stay together.
    std::stable_sort(plan_.buckets.begin(), plan_.buckets.end(),
                     [](const BucketPlan::Bucket& a, const BucketPlan::Bucket& b) {
                       return a.parameters.back() > b.parameters.back();
                     });
    LinkViewsToBuckets();
    return std::move(plan_);
  }

 private:
  // The bucket of an arena that still takes parameters.
  struct Open {
    int bucket = -1;
    size_t limit = 0;
  };

  absl::Status Add(int parameter) {
    const PlannedTensor& tensor = tensors_[parameter];
    const int arena = ArenaFor(tensor.type);
    size_t& end = plan_.arenas[arena].count;
    plan_.views[parameter] = {.arena = arena, .offset = end, .count = tensor.count, .first_bucket = 0, .end_bucket = 0};
    if (tensor.count == 0) return absl::OkStatus();

    const size_t element_bytes = ByteSize(plan_.arenas[arena].reduce_as);
    const size_t capacity = options_.bucket_bytes / element_bytes;
    if (capacity == 0) {
      return absl::InvalidArgumentError(absl::StrCat("bucket_bytes is ", options_.bucket_bytes, ", less than one ",
                                                     Name(plan_.arenas[arena].reduce_as), " element (", element_bytes,
                                                     " bytes)"));
    }
    Open& open = open_[arena];
    if (tensor.count > capacity) {
      open = {};
      for (size_t done = 0; done < tensor.count; done += capacity) {
        AddBucket(arena, end + done, std::min(capacity, tensor.count - done), parameter);
      }
    } else if (open.bucket >= 0 && plan_.buckets[open.bucket].count + tensor.count <= open.limit) {
      plan_.buckets[open.bucket].count += tensor.count;
      plan_.buckets[open.bucket].parameters.push_back(parameter);
    } else {
      const size_t first = std::min(capacity, options_.first_bucket_bytes / element_bytes);
      open.limit = plan_.buckets.empty() ? first : capacity;
      open.bucket = static_cast<int>(plan_.buckets.size());
      AddBucket(arena, end, tensor.count, parameter);
    }
    end += tensor.count;
    return absl::OkStatus();
  }

  void AddBucket(int arena, size_t offset, size_t count, int parameter) {
    plan_.buckets.push_back({.arena = arena, .offset = offset, .count = count, .parameters = {parameter}});
  }

  int ArenaFor(DataType type) {
    for (size_t i = 0; i < plan_.arenas.size(); ++i) {
      if (plan_.arenas[i].type == type) return static_cast<int>(i);
    }
    const bool widen = options_.accumulate_in_fp32 && ByteSize(type) == 2;
    plan_.arenas.push_back({.type = type, .reduce_as = widen ? DataType::kFloat32 : type, .count = 0});
    open_.emplace_back();
    return static_cast<int>(plan_.arenas.size()) - 1;
  }

  void LinkViewsToBuckets() {
    for (size_t b = 0; b < plan_.buckets.size(); ++b) {
      for (const int parameter : plan_.buckets[b].parameters) {
        BucketPlan::View& view = plan_.views[parameter];
        if (view.end_bucket == 0) view.first_bucket = static_cast<int>(b);
        view.end_bucket = static_cast<int>(b) + 1;
      }
    }
  }

  const absl::Span<const PlannedTensor> tensors_;
  const PlanOptions options_;
  BucketPlan plan_;
  std::vector<Open> open_;  // per arena
};

}  // namespace

absl::StatusOr<BucketPlan> MakeBucketPlan(absl::Span<const PlannedTensor> tensors, const PlanOptions& options) {
  return Planner(tensors, options).Run();
}

}  // namespace tutti
