#include "src/transport/tcp/link_speed.h"

#include <ifaddrs.h>
#include <netinet/in.h>

#include <fstream>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace tutti {

int LinkSpeed(const SocketAddress& address) {
  ifaddrs* interfaces = nullptr;
  if (::getifaddrs(&interfaces) != 0) return 0;
  const absl::Cleanup free = [interfaces] { ::freeifaddrs(interfaces); };
  for (const ifaddrs* each = interfaces; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != address.family()) continue;
    const socklen_t length = address.family() == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (SocketAddress(each->ifa_addr, length).Host() != address.Host()) continue;
    std::ifstream file(absl::StrCat("/sys/class/net/", each->ifa_name, "/speed"));
    int megabits = 0;
    return file >> megabits && megabits > 0 ? megabits / 1000 : 0;
  }
  return 0;
}

}  // namespace tutti
