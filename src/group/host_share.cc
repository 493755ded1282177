#include "src/group/host_share.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/base/cpu_set.h"

namespace tutti {

HostShare ShareOfHost(const std::vector<Member>& members, absl::string_view host_id, std::optional<int> quota) {
  HostShare share;
  CpuSet cpus;
  for (const Member& member : members) {
    if (member.identity.host_id != host_id) continue;
    ++share.ranks;
    cpus |= member.cpus;
  }
  share.cpus = static_cast<int>(cpus.count());
  if (quota.has_value()) share.cpus = std::min(share.cpus, *quota);
  return share;
}

std::string ToString(const HostShare& share) {
  return absl::StrCat(share.ranks, share.ranks == 1 ? " rank" : " ranks", " of this host on ", share.cpus,
                      share.cpus == 1 ? " processor" : " processors");
}

}  // namespace tutti
