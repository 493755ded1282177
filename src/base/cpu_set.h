// CpuSet: processors by number.

#ifndef TUTTI_SRC_BASE_CPU_SET_H_
#define TUTTI_SRC_BASE_CPU_SET_H_

#include <bitset>
#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tutti {

inline constexpr size_t kCpusMax = 8192;  // as many as the kernel can be built for
using CpuSet = std::bitset<kCpusMax>;

// As the kernel writes it: "0-3,8". A set too ragged for so many bytes loses its last ranges.
std::string CpuList(const CpuSet& cpus, size_t bytes_max);
// kInvalidArgument for anything else; ranges may come in any order, and overlap. "" is the empty set.
absl::StatusOr<CpuSet> ParseCpuList(absl::string_view text);

}  // namespace tutti

#endif  // TUTTI_SRC_BASE_CPU_SET_H_
