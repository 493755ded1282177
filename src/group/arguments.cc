#include "src/group/arguments.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/status_macros.h"
#include "tutti/data_type.h"

namespace tutti {

namespace {

// Of elements: so that no size in bytes overflows.
constexpr size_t kCountMax = size_t{1} << 59;

}  // namespace

absl::Status CheckTensor(absl::string_view role, const ConstTensor& tensor) {
  if (static_cast<int>(tensor.type()) >= kDataTypeCount) {
    return absl::InvalidArgumentError(
        absl::StrCat(role, " has the unknown data type ", static_cast<int>(tensor.type())));
  }
  if (tensor.device().type != Device::Type::kCpu) {
    return absl::InvalidArgumentError(
        absl::StrCat(role, " lies on CUDA device ", tensor.device().index, "; this group takes CPU tensors"));
  }
  if (tensor.data() == nullptr && tensor.count() > 0) {
    return absl::InvalidArgumentError(absl::StrCat(role, " has ", tensor.count(), " elements at a null pointer"));
  }
  if (tensor.count() > kCountMax) {
    return absl::InvalidArgumentError(absl::StrCat(role, " has ", tensor.count(), " elements: more than memory"));
  }
  return absl::OkStatus();
}

namespace {

absl::Status CheckTypes(absl::string_view one_role, const ConstTensor& one, absl::string_view other_role,
                        const ConstTensor& other) {
  TUTTI_RETURN_IF_ERROR(CheckTensor(one_role, one));
  TUTTI_RETURN_IF_ERROR(CheckTensor(other_role, other));
  if (one.type() == other.type()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(one_role, " is ", Name(one.type()), ", but ", other_role, " is ",
                                                 Name(other.type()), ": they must be equal"));
}

bool Disjoint(const ConstTensor& one, const ConstTensor& other) {
  const auto* one_begin = static_cast<const std::byte*>(one.data());
  const auto* other_begin = static_cast<const std::byte*>(other.data());
  return one.count() == 0 || other.count() == 0 || one_begin + one.bytes() <= other_begin ||
         other_begin + other.bytes() <= one_begin;
}

// Apart, or `block` at its own place in `whole`, from element `begin` on.
absl::Status CheckPlace(absl::string_view block_role, const ConstTensor& block, absl::string_view whole_role,
                        const ConstTensor& whole, int place, size_t begin) {
  if (Disjoint(block, whole)) return absl::OkStatus();
  const auto* at_place = static_cast<const std::byte*>(whole.data()) + begin * ByteSize(whole.type());
  if (block.data() == at_place) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(block_role, " and ", whole_role,
                                                 " overlap in memory: they may be disjoint, or ", block_role,
                                                 " may be block ", place, " of ", whole_role));
}

}  // namespace

absl::Status CheckBlocks(absl::string_view block_role, const ConstTensor& block, absl::string_view whole_role,
                         const ConstTensor& whole, int blocks, int place) {
  TUTTI_RETURN_IF_ERROR(CheckTypes(block_role, block, whole_role, whole));
  size_t count = 0;
  if (__builtin_mul_overflow(block.count(), static_cast<size_t>(blocks), &count) || whole.count() != count) {
    return absl::InvalidArgumentError(absl::StrCat(whole_role, " has ", whole.count(), " elements; with ", block_role,
                                                   " of ", block.count(), " and ", blocks, " blocks it must have ",
                                                   block.count() * static_cast<size_t>(blocks)));
  }
  return CheckPlace(block_role, block, whole_role, whole, place, static_cast<size_t>(place) * block.count());
}

absl::Status CheckUnevenBlocks(absl::string_view block_role, const ConstTensor& block, absl::string_view whole_role,
                               const ConstTensor& whole, absl::Span<const size_t> counts, int blocks, int place) {
  TUTTI_RETURN_IF_ERROR(CheckTypes(block_role, block, whole_role, whole));
  TUTTI_RETURN_IF_ERROR(CheckCounts(whole_role, whole, "counts", counts, blocks));
  const auto own = static_cast<size_t>(place);
  if (block.count() != counts[own]) {
    return absl::InvalidArgumentError(absl::StrCat(block_role, " has ", block.count(), " elements, but counts[", place,
                                                   "] is ", counts[own], ": they must be equal"));
  }
  const size_t begin = std::accumulate(counts.begin(), counts.begin() + place, size_t{0});
  return CheckPlace(block_role, block, whole_role, whole, place, begin);
}

absl::Status CheckCounts(absl::string_view whole_role, const ConstTensor& whole, absl::string_view counts_role,
                         absl::Span<const size_t> counts, int blocks) {
  if (counts.size() != static_cast<size_t>(blocks)) {
    return absl::InvalidArgumentError(
        absl::StrCat(counts_role, " has ", counts.size(), " entries; it must have one for each of ", blocks, " ranks"));
  }
  size_t rest = whole.count();
  for (size_t i = 0; i < counts.size(); rest -= counts[i++]) {
    if (counts[i] > rest) break;
    if (i + 1 == counts.size() && counts[i] == rest) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(whole_role, " has ", whole.count(), " elements, but ", counts_role,
                                                 " does not add up to that: ", absl::StrJoin(counts, " + ")));
}

absl::Status CheckApart(const ConstTensor& input, const ConstTensor& output) {
  TUTTI_RETURN_IF_ERROR(CheckTypes("input", input, "output", output));
  if (Disjoint(input, output)) return absl::OkStatus();
  return absl::InvalidArgumentError("input and output overlap in memory: they must be disjoint");
}

absl::Status CheckRank(absl::string_view role, int rank, int size) {
  if (rank >= 0 && rank < size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(role, " ", rank, " is not a rank: there are ranks 0 to ", size - 1));
}

}  // namespace tutti
