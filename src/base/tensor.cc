#include "tutti/tensor.h"

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tutti {
namespace {

std::string List(absl::Span<const int64_t> values) { return absl::StrCat("[", absl::StrJoin(values, ", "), "]"); }

// The product of the dimensions, none of which is negative; none if their bytes do not fit.
std::optional<int64_t> Count(absl::Span<const int64_t> shape, DataType type) {
  if (absl::c_linear_search(shape, 0)) return 0;
  const int64_t limit = std::numeric_limits<int64_t>::max() / static_cast<int64_t>(ByteSize(type));
  int64_t count = 1;
  for (int64_t dimension : shape) {
    if (dimension > limit / count) return std::nullopt;
    count *= dimension;
  }
  return count;
}

std::vector<int64_t> RowMajorStrides(absl::Span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

}  // namespace

absl::StatusOr<Tensor> Tensor::FromStrided(void* data, absl::Span<const int64_t> shape,
                                           absl::Span<const int64_t> strides, DataType type, Device device) {
  const std::string view = absl::StrCat("a tensor of shape ", List(shape), " and strides ", List(strides));
  if (ByteSize(type) == 0) {
    return absl::InvalidArgumentError(absl::StrCat(view, ": ", static_cast<int>(type), " is no element type"));
  }
  if (shape.size() != strides.size()) {
    return absl::InvalidArgumentError(absl::StrCat(view, ": each dimension needs one stride"));
  }
  for (int64_t dimension : shape) {
    if (dimension < 0) return absl::InvalidArgumentError(absl::StrCat(view, ": a dimension is negative"));
  }
  const std::optional<int64_t> count = Count(shape, type);
  if (!count) return absl::InvalidArgumentError(absl::StrCat(view, ": its bytes do not fit 63 bits"));
  if (*count == 0) return Tensor(data, 0, type, device);

  const std::vector<int64_t> dense = RowMajorStrides(shape);
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 1 && strides[i] != dense[i]) {
      return absl::InvalidArgumentError(absl::StrCat(view, " is not contiguous in row-major order, which has strides ",
                                                     List(dense), ": copy it into contiguous memory first"));
    }
  }
  return Tensor(data, static_cast<size_t>(*count), type, device);
}

}  // namespace tutti
