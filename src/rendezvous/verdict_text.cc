#include "src/rendezvous/verdict_text.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace tutti {
namespace {

// Ranks, or groups of them, that a message describes one by one.
constexpr size_t kDescribedMax = 8;
// Ranks, or runs of them, in a list.
constexpr size_t kListedMax = 32;
// Heartbeats come more often than this.
constexpr absl::Duration kSilenceWorthSaying = absl::Seconds(1);

std::string Seconds(absl::Duration duration) { return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(duration)); }

std::string LatestOperation(const RankView& rank) {
  if (!rank.latest.has_value()) return "no operation yet";
  return absl::StrCat("last operation ", rank.latest->sequence, " (", rank.latest->text,
                      rank.latest->done ? ", done)" : ", not done)");
}

std::string Silence(const RankView& rank, absl::Time now) {
  return absl::StrCat("silent for ", Seconds(now - rank.heard), " (stopped, or its host is unreachable)");
}

bool HasReached(const RankView& rank, uint32_t sequence) {
  return rank.operation.has_value() || (rank.latest.has_value() && rank.latest->sequence >= sequence);
}

// What became of a rank of which nothing is to be expected; "" for others.
std::string Fate(const RankView& rank) {
  switch (rank.state) {
    case RankView::State::kPresent:
      return "";
    case RankView::State::kLeft:
      return "has left the group";
    case RankView::State::kLost:
      return "has died";
  }
  return "";
}

// Of the details of an operation, those in which ranks differ; all if none does.
class Differences {
 public:
  explicit Differences(absl::Span<const RankView> ranks) {
    for (const RankView& rank : ranks) {
      if (!rank.operation.has_value()) continue;
      const std::vector<std::string> details = absl::StrSplit(rank.operation->details, ", ");
      values_.resize(std::max(values_.size(), details.size()));
      for (size_t i = 0; i < details.size(); ++i) values_[i].insert(details[i]);
    }
  }

  std::string In(const OperationNote& operation) const {
    std::vector<std::string> different;
    const std::vector<std::string> details = absl::StrSplit(operation.details, ", ");
    for (size_t i = 0; i < details.size(); ++i) {
      if (values_[i].size() > 1) different.push_back(details[i]);
    }
    return different.empty() ? operation.details : absl::StrJoin(different, ", ");
  }

 private:
  std::vector<std::set<std::string>> values_;  // of each detail, on all ranks
};

// Ranks that called the same have the same description. `differences`: null where the texts tell them.
std::string Called(const RankView& rank, uint32_t sequence, const Differences* differences) {
  if (rank.operation.has_value()) {
    if (differences == nullptr) return rank.operation->text;
    return absl::StrCat(rank.operation->text, " [", differences->In(*rank.operation), "]");
  }
  if (std::string fate = Fate(rank); !fate.empty()) return fate;
  if (!rank.answered) return "does not answer";
  if (HasReached(rank, sequence)) return "has it no longer on record";
  return absl::StrCat("has not called it, ", LatestOperation(rank));
}

// Whether the descriptions without details hide a difference.
bool NeedsDetails(absl::Span<const RankView> ranks) {
  std::map<std::string, uint64_t> fingerprints;
  for (const RankView& rank : ranks) {
    if (!rank.operation.has_value()) continue;
    const auto [entry, is_new] = fingerprints.emplace(rank.operation->text, rank.operation->fingerprint);
    if (!is_new && entry->second != rank.operation->fingerprint) return true;
  }
  return false;
}

bool CalledTheSame(absl::Span<const RankView> ranks) {
  std::set<uint64_t> fingerprints;
  for (const RankView& rank : ranks) {
    if (rank.operation.has_value()) fingerprints.insert(rank.operation->fingerprint);
  }
  return fingerprints.size() <= 1;
}

std::string WhyNotArrived(const RankView& rank, absl::Time now) {
  if (const std::string fate = Fate(rank); !fate.empty()) return absl::StrCat(fate, ", ", LatestOperation(rank));
  const bool silent = !rank.answered && now - rank.heard > kSilenceWorthSaying;
  if (!silent) return absl::StrCat("has not arrived: alive, ", LatestOperation(rank));
  return absl::StrCat("does not answer: ", Silence(rank, now), ", ", LatestOperation(rank));
}

// The first ranks one by one, with host and process; of the others, who are at the same place together.
std::string DescribeAbsent(const std::vector<const RankView*>& absent, absl::Time now) {
  std::vector<std::string> parts;
  std::map<std::string, std::vector<int>> others;
  std::vector<int> rest;
  for (const RankView* rank : absent) {
    const std::string why = WhyNotArrived(*rank, now);
    if (parts.size() < kDescribedMax) {
      parts.push_back(absl::StrCat(Describe(rank->identity), " ", why));
    } else if (others.size() < kDescribedMax || others.contains(why)) {
      others[why].push_back(rank->identity.rank);
    } else {
      rest.push_back(rank->identity.rank);
    }
  }
  for (const auto& [why, ranks] : others) parts.push_back(absl::StrCat(RankList(ranks), ": ", why));
  if (!rest.empty()) parts.push_back(absl::StrCat(RankList(rest), " as well"));
  return absl::StrJoin(parts, "; ");
}

void AppendBounded(std::vector<std::string>& parts, size_t& left_out, std::string part) {
  if (parts.size() < kDescribedMax) {
    parts.push_back(std::move(part));
  } else {
    ++left_out;
  }
}

std::string JoinBounded(const std::vector<std::string>& parts, size_t left_out) {
  std::string text = absl::StrJoin(parts, "; ");
  if (left_out > 0) absl::StrAppend(&text, "; and ", left_out, " more");
  return text;
}

}  // namespace

std::string RankList(const std::vector<int>& ranks) {
  if (ranks.empty()) return "no ranks";
  std::vector<std::string> runs;
  size_t listed = 0;
  while (listed < ranks.size() && runs.size() < kListedMax) {
    size_t end = listed + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (end - listed >= 3) {
      runs.push_back(absl::StrCat(ranks[listed], "-", ranks[end - 1]));
      listed = end;
    } else {
      runs.push_back(absl::StrCat(ranks[listed++]));
    }
  }
  std::string more;
  if (listed < ranks.size()) more = absl::StrCat(" and ", ranks.size() - listed, " more");
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", absl::StrJoin(runs, ", "), more);
}

absl::Status DeathVerdict(const RankView& dead, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat(Describe(dead.identity), " died: its connection ended without a goodbye",
                                             why.empty() ? "" : absl::StrCat(" (", why, ")"), "; ",
                                             LatestOperation(dead)));
}

absl::Status SilenceVerdict(const RankView& silent, absl::Time now) {
  return absl::UnavailableError(
      absl::StrCat(Describe(silent.identity), " is given up: ", Silence(silent, now), "; ", LatestOperation(silent)));
}

absl::Status LeftVerdict(const RankView& left, const RankView& reporter, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat(Describe(left.identity), " has left the group (its group was destroyed), ",
                                             "but ", Describe(reporter.identity), " needs it: ", why,
                                             "; it left after ", LatestOperation(left)));
}

absl::Status UnreachableVerdict(const RankView& peer, const RankView& reporter, absl::string_view why, absl::Time now) {
  std::string state = Fate(peer);
  if (state.empty()) {
    state = now - peer.heard > kSilenceWorthSaying ? absl::StrCat("is ", Silence(peer, now))
                                                   : "is alive, and in touch with rank 0";
  }
  return absl::UnavailableError(absl::StrCat(Describe(reporter.identity), " cannot reach ", Describe(peer.identity),
                                             ", which ", state, ": ", why));
}

absl::Status AbortVerdict(const RankView& reporter, absl::string_view message) {
  return absl::AbortedError(absl::StrCat("aborted by ", Describe(reporter.identity), ": ", message));
}

absl::Status MismatchVerdict(absl::Span<const RankView> ranks, uint32_t sequence) {
  const Differences differences(ranks);
  const Differences* shown = NeedsDetails(ranks) ? &differences : nullptr;
  std::vector<std::pair<std::string, std::vector<int>>> groups;  // by their lowest rank
  std::map<std::string, size_t> group_of;
  for (const RankView& rank : ranks) {
    const std::string called = Called(rank, sequence, shown);
    const auto [entry, is_new] = group_of.emplace(called, groups.size());
    if (is_new) groups.push_back({called, {}});
    groups[entry->second].second.push_back(rank.identity.rank);
  }
  std::vector<std::string> parts;
  size_t left_out = 0;
  for (const auto& [called, members] : groups) {
    AppendBounded(parts, left_out, absl::StrCat(RankList(members), ": ", called));
  }
  std::string message = absl::StrCat("mismatch at operation ", sequence, ": ", JoinBounded(parts, left_out));
  if (CalledTheSame(ranks)) {
    absl::StrAppend(&message, "; an operation before it differed, of which there is no record any more");
  }
  return absl::FailedPreconditionError(message);
}

absl::Status TimeoutVerdict(absl::Span<const RankView> ranks, const RankView& reporter, uint32_t sequence,
                            absl::string_view detail, absl::Time now) {
  if (!CalledTheSame(ranks)) return MismatchVerdict(ranks, sequence);
  std::vector<const RankView*> missing;
  std::vector<int> unfinished;
  for (const RankView& rank : ranks) {
    const bool silent = !rank.answered && now - rank.heard > kSilenceWorthSaying;
    const bool absent = sequence != 0 && (!HasReached(rank, sequence) || !rank.answered);
    if (absent || silent || rank.state != RankView::State::kPresent) {
      missing.push_back(&rank);
    }
    if (rank.operation.has_value() && !rank.operation->done) unfinished.push_back(rank.identity.rank);
  }
  std::string message = absl::StrCat(Describe(reporter.identity), ": ", detail, ": ");
  if (!missing.empty()) {
    absl::StrAppend(&message, DescribeAbsent(missing, now));
  } else if (sequence == 0) {
    absl::StrAppend(&message, "all ranks are alive");
  } else {
    absl::StrAppend(&message, "all ranks have arrived, and it is not done on ", RankList(unfinished));
  }
  return absl::DeadlineExceededError(message);
}

std::string StragglerWarning(absl::Span<const RankView> ranks, uint32_t sequence, absl::Duration waited,
                             absl::Time now) {
  std::vector<const RankView*> missing;
  std::vector<int> arrived;
  std::string text;
  for (const RankView& rank : ranks) {
    if (!HasReached(rank, sequence)) {
      missing.push_back(&rank);
      continue;
    }
    arrived.push_back(rank.identity.rank);
    if (rank.latest->sequence == sequence) text = absl::StrCat(" (", rank.latest->text, ")");
  }
  return absl::StrCat("operation ", sequence, text, " is called by ", RankList(arrived),
                      ", and waits for others since ", Seconds(waited), ": ", DescribeAbsent(missing, now));
}

}  // namespace tutti
