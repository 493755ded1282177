#include "src/group/arguments.h"

#include "absl/strings/str_cat.h"
#include "src/base/status_macros.h"
#include "tutti/data_type.h"

namespace tutti {

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
  if (tensor.count() > (size_t{1} << 62) / ByteSize(tensor.type())) {
    return absl::InvalidArgumentError(absl::StrCat(role, " has ", tensor.count(), " elements: more than memory"));
  }
  return absl::OkStatus();
}

absl::Status CheckBlocks(absl::string_view block_role, const ConstTensor& block, absl::string_view whole_role,
                         const ConstTensor& whole, int blocks, int place) {
  TUTTI_RETURN_IF_ERROR(CheckTensor(block_role, block));
  TUTTI_RETURN_IF_ERROR(CheckTensor(whole_role, whole));
  if (block.type() != whole.type()) {
    return absl::InvalidArgumentError(absl::StrCat(block_role, " is ", Name(block.type()), ", but ", whole_role, " is ",
                                                   Name(whole.type()), ": they must be equal"));
  }
  if (whole.count() % static_cast<size_t>(blocks) != 0 ||
      whole.count() / static_cast<size_t>(blocks) != block.count()) {
    return absl::InvalidArgumentError(absl::StrCat(whole_role, " has ", whole.count(), " elements; with ", block_role,
                                                   " of ", block.count(), " and ", blocks, " blocks it must have ",
                                                   block.count() * static_cast<size_t>(blocks)));
  }
  const auto* block_begin = static_cast<const std::byte*>(block.data());
  const auto* whole_begin = static_cast<const std::byte*>(whole.data());
  const bool disjoint =
      block_begin + block.bytes() <= whole_begin || whole_begin + whole.bytes() <= block_begin || block.count() == 0;
  if (disjoint || block_begin == whole_begin + static_cast<size_t>(place) * block.bytes()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(block_role, " and ", whole_role,
                                                 " overlap in memory: they may be disjoint, or ", block_role,
                                                 " may be block ", place, " of ", whole_role));
}

absl::Status CheckRank(absl::string_view role, int rank, int size) {
  if (rank >= 0 && rank < size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(role, " ", rank, " is not a rank: there are ranks 0 to ", size - 1));
}

}  // namespace tutti
