// Checks of what a caller passes to a collective, before anything is sent.

#ifndef TUTTI_SRC_GROUP_ARGUMENTS_H_
#define TUTTI_SRC_GROUP_ARGUMENTS_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tutti/tensor.h"

namespace tutti {

// A known type, on the CPU, with memory wherever there are elements.
absl::Status CheckTensor(absl::string_view role, const ConstTensor& tensor);

// An input and an output of one collective, of which `whole` holds `blocks` blocks of the size of `block`. Equal types,
// matching counts, and no overlap, except that `block` may lie at its own place, block number `place` of `whole`.
absl::Status CheckBlocks(absl::string_view block_role, const ConstTensor& block, absl::string_view whole_role,
                         const ConstTensor& whole, int blocks, int place);

// The same with blocks of different sizes, `counts[r]` elements for rank r.
absl::Status CheckUnevenBlocks(absl::string_view block_role, const ConstTensor& block, absl::string_view whole_role,
                               const ConstTensor& whole, absl::Span<const size_t> counts, int blocks, int place);

// `whole` consists of `blocks` blocks of these sizes; `counts_role` is what the caller calls them.
absl::Status CheckCounts(absl::string_view whole_role, const ConstTensor& whole, absl::string_view counts_role,
                         absl::Span<const size_t> counts, int blocks);

// An input and an output of equal type that share no memory.
absl::Status CheckApart(const ConstTensor& input, const ConstTensor& output);

absl::Status CheckRank(absl::string_view role, int rank, int size);

}  // namespace tutti

#endif  // TUTTI_SRC_GROUP_ARGUMENTS_H_
