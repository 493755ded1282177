#include "src/group/host_share.h"

#include "absl/strings/str_cat.h"
#include "src/base/cpu_set.h"

namespace tutti {

HostShare ShareOfHost(const std::vector<Member>& members, const Identity& self, std::optional<int> quota) {
  HostShare machine, host;
  CpuSet cpus;
  for (const Member& member : members) {
    const bool on_host = member.identity.host_id == self.host_id;
    if (on_host) ++host.ranks;
    if (!on_host && (self.boot_id.empty() || member.identity.boot_id != self.boot_id)) continue;
    ++machine.ranks;
    cpus |= member.cpus;
  }
  machine.cpus = static_cast<int>(cpus.count());
  host.cpus = quota.value_or(machine.cpus);
  return host.cpus < machine.cpus && (host.oversubscribed() || !machine.oversubscribed()) ? host : machine;
}

std::string ToString(const HostShare& share) {
  return absl::StrCat(share.ranks, share.ranks == 1 ? " rank" : " ranks", " of this host on ", share.cpus,
                      share.cpus == 1 ? " processor" : " processors");
}

}  // namespace tutti
