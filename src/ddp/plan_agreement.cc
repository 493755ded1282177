#include "src/ddp/plan_agreement.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "src/base/log.h"
#include "src/base/status_macros.h"

namespace tutti {
namespace {

// Bounds on what is received and printed when the ranks disagree.
constexpr size_t kMaxDescriptionBytes = size_t{64} << 20;
constexpr size_t kMaxGroups = 8;

struct Digest {
  uint64_t everything;
  uint64_t without_names;
  uint64_t bytes;  // of the description
};
constexpr size_t kDigestWords = sizeof(Digest) / sizeof(uint64_t);

// FNV-1a: the same on every machine, and collisions are accidents of 1 in 2^64.
uint64_t Hash(absl::string_view text) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  return hash;
}

Digest DigestOf(const ModelDescription& description, absl::string_view text) {
  ModelDescription nameless = description;
  for (auto& parameter : nameless.parameters) parameter.first.clear();
  return {.everything = Hash(text), .without_names = Hash(Encode(nameless)), .bytes = text.size()};
}

// Ranks that differ in more than names are told apart by that alone: names of their own on every rank must not hide it.
std::vector<AgreeingRanks> GroupByDigest(const std::vector<Digest>& digests) {
  const bool only_names = std::all_of(digests.begin(), digests.end(), [&](const Digest& digest) {
    return digest.without_names == digests[0].without_names;
  });
  auto key = [&](int rank) { return only_names ? digests[rank].everything : digests[rank].without_names; };
  std::vector<AgreeingRanks> groups;
  for (int rank = 0; rank < static_cast<int>(digests.size()); ++rank) {
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const AgreeingRanks& candidate) {
      return key(candidate.ranks.front()) == key(rank);
    });
    if (group != groups.end()) {
      group->ranks.push_back(rank);
    } else if (groups.size() < kMaxGroups) {
      groups.push_back({.ranks = {rank}, .description = {}});
    }
  }
  return groups;
}

}  // namespace

absl::Status AgreeOnModel(ProcessGroup& group, const ModelDescription& description, absl::Duration timeout) {
  const std::string text = Encode(description);
  const Digest mine = DigestOf(description, text);
  std::vector<Digest> digests(group.size());
  Work gather =
      group.AllGather({&mine, kDigestWords, DataType::kUInt64},
                      {digests.data(), kDigestWords * digests.size(), DataType::kUInt64}, {.timeout = timeout});
  TUTTI_RETURN_IF_ERROR(gather.Wait());
  std::vector<AgreeingRanks> groups = GroupByDigest(digests);
  if (groups.size() == 1) return description.usable;

  // One rank speaks for all that agree with it.
  for (AgreeingRanks& agreeing : groups) {
    const int speaker = agreeing.ranks.front();
    std::string received = speaker == group.rank() ? text : "";
    received.resize(std::min<uint64_t>(digests[speaker].bytes, kMaxDescriptionBytes));
    TUTTI_RETURN_IF_ERROR(
        group.Broadcast({received.data(), received.size(), DataType::kUInt8}, speaker, {.timeout = timeout}).Wait());
    agreeing.description = Decode(received);
  }
  const Comparison comparison = Compare(groups, group.size());
  if (!comparison.warning.empty() && group.rank() == 0) {
    TUTTI_LOG_WARNING("gradient bucketer: parameter names differ between ranks: {}", comparison.warning);
  }
  if (comparison.status.ok()) return comparison.status;
  return absl::Status(comparison.status.code(),
                      absl::StrCat("the ranks cannot share a gradient bucketer: ", comparison.status.message()));
}

}  // namespace tutti
