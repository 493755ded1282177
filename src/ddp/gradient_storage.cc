#include "src/ddp/gradient_storage.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "src/base/status_macros.h"
#include "src/reduce/reduce.h"

namespace tutti {
namespace {

absl::StatusOr<Buffer> AllocateElements(ProcessGroup& group, size_t count, DataType type) {
  if (count == 0) return Buffer();
  return group.Allocate(count * ByteSize(type));
}

void SetToZero(const Tensor& tensor) {
  if (tensor.count() > 0) std::memset(tensor.data(), 0, tensor.bytes());
}

}  // namespace

absl::StatusOr<GradientStorage> GradientStorage::Create(ProcessGroup& group, const BucketPlan& plan) {
  GradientStorage storage(plan);
  for (const BucketPlan::Arena& arena : plan.arenas) {
    Memory& memory = storage.memory_.emplace_back();
    TUTTI_ASSIGN_OR_RETURN(memory.views, AllocateElements(group, arena.count, arena.type));
    if (arena.reduce_as == arena.type) continue;
    TUTTI_ASSIGN_OR_RETURN(memory.sums, AllocateElements(group, arena.count, arena.reduce_as));
  }
  return storage;
}

bool GradientStorage::HasSum(int parameter) const {
  const BucketPlan::Arena& arena = plan_->arenas[plan_->views[parameter].arena];
  return arena.reduce_as != arena.type;
}

Tensor GradientStorage::view(int parameter) const {
  const BucketPlan::View& view = plan_->views[parameter];
  const DataType type = plan_->arenas[view.arena].type;
  if (view.count == 0) return {nullptr, 0, type};
  return memory_[view.arena].views.tensor(view.offset * ByteSize(type), view.count, type);
}

Tensor GradientStorage::sum(int parameter) const {
  const BucketPlan::View& view = plan_->views[parameter];
  const DataType type = plan_->arenas[view.arena].reduce_as;
  if (view.count == 0) return {nullptr, 0, type};
  return memory_[view.arena].sums.tensor(view.offset * ByteSize(type), view.count, type);
}

Tensor GradientStorage::bucket(int bucket) const {
  const BucketPlan::Bucket& range = plan_->buckets[bucket];
  const BucketPlan::Arena& arena = plan_->arenas[range.arena];
  const Memory& memory = memory_[range.arena];
  const Buffer& reduced = arena.reduce_as == arena.type ? memory.views : memory.sums;
  return reduced.tensor(range.offset * ByteSize(arena.reduce_as), range.count, arena.reduce_as);
}

void GradientStorage::Clear(int parameter) const {
  SetToZero(view(parameter));
  if (HasSum(parameter)) SetToZero(sum(parameter));
}

void GradientStorage::Accumulate(int parameter) const {
  if (!HasSum(parameter)) return;
  const Tensor from = view(parameter);
  float* const to = static_cast<float*>(sum(parameter).data());
  const ConvertFunction widen = KernelsFor(from.type(), ReduceOp::kSum).widen;
  std::array<float, 1024> block;
  for (size_t done = 0; done < from.count(); done += block.size()) {
    const size_t count = std::min(block.size(), from.count() - done);
    widen(block.data(), static_cast<std::byte*>(from.data()) + done * ByteSize(from.type()), count, 1.0);
    for (size_t i = 0; i < count; ++i) to[done + i] += block[i];
  }
  SetToZero(from);
}

void GradientStorage::Publish(int parameter) const {
  if (!HasSum(parameter)) return;
  const Tensor to = view(parameter);
  if (to.count() > 0) KernelsFor(to.type(), ReduceOp::kSum).narrow(to.data(), sum(parameter).data(), to.count(), 1.0);
}

std::vector<std::byte> GradientStorage::SetAside(int parameter) const {
  if (HasSum(parameter)) return {};
  const Tensor from = view(parameter);
  std::vector<std::byte> contents(from.bytes());
  if (!contents.empty()) std::memcpy(contents.data(), from.data(), contents.size());
  SetToZero(from);
  return contents;
}

void GradientStorage::PutBack(int parameter, const std::vector<std::byte>& contents) const {
  if (!contents.empty()) std::memcpy(view(parameter).data(), contents.data(), contents.size());
}

}  // namespace tutti
