// ModelDescription: what the ranks must have in common, as text: one fact a line. So a description can be compared,
// printed and sent as it is. Pure functions.

#ifndef TUTTI_SRC_DDP_MODEL_DESCRIPTION_H_
#define TUTTI_SRC_DDP_MODEL_DESCRIPTION_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tutti {

struct ModelDescription {
  absl::Status usable;                                          // why this rank cannot take part, if it cannot
  std::vector<std::pair<std::string, std::string>> options;     // name, value
  std::vector<std::pair<std::string, std::string>> parameters;  // name, type and shape
};

std::string Encode(const ModelDescription& description);
// Of text from a peer: what cannot be understood is left out.
ModelDescription Decode(absl::string_view text);

// Ranks with the same description.
struct AgreeingRanks {
  std::vector<int> ranks;  // ascending, not empty
  ModelDescription description;
};

struct Comparison {
  absl::Status status;  // the differences, each with its ranks
  std::string warning;  // if nothing but names differs
};

// `groups` are those of `world_size` ranks, not necessarily all. What more than half of the ranks have is "the others".
Comparison Compare(absl::Span<const AgreeingRanks> groups, int world_size);

}  // namespace tutti

#endif  // TUTTI_SRC_DDP_MODEL_DESCRIPTION_H_
