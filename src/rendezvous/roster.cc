#include "src/rendezvous/roster.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/rendezvous/come_again.h"
#include "src/rendezvous/verdict_text.h"

namespace tutti {
namespace {

constexpr size_t kRefusedMax = 8;

}  // namespace

absl::Status Roster::Seat(const Identity& caller, absl::string_view address) {
  absl::Status status = CheckSameJob(server_, caller);
  if (status.ok()) {
    std::optional<Seated>& seat = seats_[static_cast<size_t>(caller.rank)];
    if (!seat.has_value()) {
      seat.emplace();
      seat->member.identity = caller;
      return absl::OkStatus();
    }
    const Identity& holder = seat->member.identity;
    if (seat->left) {
      return ComeAgain(
          absl::StrCat(Describe(holder), " has left this group, but ", Describe(server_), " has not ended it yet"));
    }
    status = absl::AlreadyExistsError(absl::StrCat("rank ", caller.rank, " is already taken by ", holder.hostname,
                                                   ", pid ", holder.pid, "; give every process a rank of its own"));
  }
  if (++refused_count_ <= kRefusedMax) {
    refused_.push_back(absl::StrCat(Describe(caller), " from ", address, ": ", status.message()));
  }
  return status;
}

void Roster::Join(int rank, Presence presence, absl::Time deadline) {
  Seated& seat = *seats_[static_cast<size_t>(rank)];
  if (seat.joined) return;
  seat.joined = true;
  seat.member.data_address = std::move(presence.data_address);
  seat.member.local_address = std::move(presence.local_address);
  seat.member.cpus = presence.cpus;
  ++joined_;
  deadline_ = std::min(deadline_, deadline);
}

std::vector<Member> Roster::members() const {
  std::vector<Member> members;
  for (const std::optional<Seated>& seat : seats_) members.push_back(seat->member);
  return members;
}

absl::Status Roster::Missing() const {
  std::vector<int> present, missing;
  std::set<std::string> hosts;
  for (size_t rank = 0; rank < seats_.size(); ++rank) {
    const bool joined = seats_[rank].has_value() && seats_[rank]->joined;
    (joined ? present : missing).push_back(static_cast<int>(rank));
    if (joined) hosts.insert(seats_[rank]->member.identity.hostname);
  }
  std::string message = absl::StrCat("not all ranks have come in time: have ", RankList(present));
  if (!hosts.empty()) {
    absl::StrAppend(&message, " (", hosts.size() == 1 ? "host " : "hosts ", absl::StrJoin(hosts, ", "), ")");
  }
  absl::StrAppend(&message, "; missing ", RankList(missing));
  if (refused_count_ > 0) {
    absl::StrAppend(&message, "; refused ", refused_count_, refused_count_ == 1 ? " process" : " processes", ": ",
                    absl::StrJoin(refused_, "; "));
  }
  return absl::DeadlineExceededError(message);
}

}  // namespace tutti
