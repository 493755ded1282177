// Roster: who has come to the rendezvous. Pure: no I/O, no clock.

#ifndef TUTTI_SRC_RENDEZVOUS_ROSTER_H_
#define TUTTI_SRC_RENDEZVOUS_ROSTER_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "src/identity/hello.h"
#include "src/rendezvous/membership.h"

namespace tutti {

class Roster {
 public:
  explicit Roster(const Identity& server) : server_(server), seats_(static_cast<size_t>(server.world_size)) {}

  // Gives the caller its seat. kFailedPrecondition if it is of another job, kAlreadyExists if the seat is taken; the
  // caller is remembered then, for Missing. A temporary refusal (come_again.h) if who had the seat has left.
  // `address`: where it calls from.
  absl::Status Seat(const Identity& caller, absl::string_view address);

  // The rank, which has a seat, is ready; it waits until `deadline`.
  struct Presence {
    std::string data_address, local_address;
    CpuSet cpus = {};
  };
  void Join(int rank, Presence presence, absl::Time deadline);
  // The rank has left the group, for which the others are about to do the same.
  void Leave(int rank) { seats_[static_cast<size_t>(rank)]->left = true; }
  bool complete() const { return joined_ == seats_.size(); }
  // The earliest of those who wait: without it the others cannot go on either.
  absl::Time deadline() const { return deadline_; }

  const Identity& identity(int rank) const { return seats_[static_cast<size_t>(rank)]->member.identity; }
  // By rank, once complete.
  std::vector<Member> members() const;
  // kDeadlineExceeded: who is there, who is not, and who was refused.
  absl::Status Missing() const;

 private:
  struct Seated {
    Member member;
    bool joined = false;
    bool left = false;
  };

  const Identity server_;
  std::vector<std::optional<Seated>> seats_;
  size_t joined_ = 0;
  absl::Time deadline_ = absl::InfiniteFuture();
  std::vector<std::string> refused_;  // the first few
  size_t refused_count_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_SRC_RENDEZVOUS_ROSTER_H_
