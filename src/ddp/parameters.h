// What may be registered with a bucketer. Pure functions.

#ifndef TUTTI_SRC_DDP_PARAMETERS_H_
#define TUTTI_SRC_DDP_PARAMETERS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tutti/gradient_bucketer.h"

namespace tutti {

// The number of elements of each parameter; kInvalidArgument that names the first one that cannot be registered.
absl::StatusOr<std::vector<size_t>> CountElements(absl::Span<const Parameter> parameters);

// parameter 3 "b1"
std::string ParameterLabel(size_t index, absl::string_view name);

// float32 [784, 128]
std::string TypeAndShape(const Parameter& parameter);

}  // namespace tutti

#endif  // TUTTI_SRC_DDP_PARAMETERS_H_
