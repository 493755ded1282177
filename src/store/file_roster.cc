#include "src/store/file_roster.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

using Life = Opener::Life;
using Decision = Admission::Decision;

const Opener* Find(const std::vector<Opener>& openers, Life life) {
  const auto found = std::find_if(openers.begin(), openers.end(), [&](const Opener& o) { return o.life == life; });
  return found != openers.end() ? &*found : nullptr;
}

std::string Name(const Opener& opener) {
  return absl::StrCat(Describe(opener.identity), " of job \"", opener.identity.job_id, "\", which opened it at ",
                      absl::FormatTime(opener.opened, absl::UTCTimeZone()));
}

Admission Refuse(const std::string& why) {
  return {Decision::kRefuse, absl::FailedPreconditionError(absl::StrCat(why, "; remove the file or use another path"))};
}

// Nobody is alive.
Admission AdmitAfter(const std::vector<Opener>& openers) {
  if (const Opener* gone = Find(openers, Life::kGone)) return Refuse(absl::StrCat("holds a dead job: ", Name(*gone)));
  return {Decision::kTakeOver, absl::OkStatus()};
}

}  // namespace

Admission Admit(const Identity& self, const std::vector<Opener>& openers) {
  const Opener* alive = Find(openers, Life::kAlive);
  if (alive == nullptr) return AdmitAfter(openers);
  if (absl::Status same = CheckSameJob(alive->identity, self); !same.ok()) {
    return {Decision::kRefuse, absl::FailedPreconditionError(absl::StrCat("is in use by ", Name(*alive), ": ",
                                                                          same.message(), "; use another path"))};
  }
  const auto holder = std::find_if(openers.begin(), openers.end(), [&](const Opener& opener) {
    return opener.identity.rank == self.rank && opener.life == Life::kAlive;
  });
  if (holder != openers.end()) {
    return {Decision::kRefuse, absl::AlreadyExistsError(absl::StrCat("rank ", self.rank, " is already taken by ",
                                                                     Name(*holder), "; each rank opens it once"))};
  }
  for (const Life life : {Life::kDead, Life::kGone}) {
    if (const Opener* dead = Find(openers, life)) {
      return Refuse(absl::StrCat("holds a broken job: ", Name(*dead), ", is dead, but ", Describe(alive->identity),
                                 " is still there"));
    }
  }
  if (const Opener* closed = Find(openers, Life::kClosed)) {
    Admission refusal = Refuse(absl::StrCat("holds a job that is ending: ", Name(*closed), ", has closed it, but ",
                                            Describe(alive->identity), " is still there"));
    return {Decision::kWait, refusal.why};
  }
  return {Decision::kJoin, absl::OkStatus()};
}

}  // namespace tutti
