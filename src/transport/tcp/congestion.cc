#include "src/transport/tcp/congestion.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "src/base/log.h"

namespace tutti {
namespace {

constexpr char kOwnHostAlgorithm[] = "reno";

void Set(int fd, const std::string& name) {
  if (::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), name.size()) != 0) {
    TUTTI_LOG_DEBUG("tcp: congestion control \"{}\" is not available: {}", name,
                    std::generic_category().message(errno));
  }
}

}  // namespace

void Congestion::PrepareListener(int fd) {
  char name[16] = {};  // TCP_CA_NAME_MAX
  socklen_t length = sizeof(name);
  if (::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0) system_.assign(name, ::strnlen(name, length));
  if (!options_.congestion.empty()) {
    Set(fd, options_.congestion);
  } else if (OwnHostPeers() > 0) {
    Set(fd, kOwnHostAlgorithm);
  }
}

std::string Congestion::For(int peer) const {
  if (!options_.congestion.empty()) return options_.congestion;
  return OnOwnHost(peer) ? kOwnHostAlgorithm : "";
}

void Congestion::Apply(int fd, int peer) const {
  const std::string name = For(peer);
  Set(fd, name.empty() ? system_ : name);
}

bool Congestion::OnOwnHost(int peer) const {
  return addresses_[peer].IsLoopback() || addresses_[peer].Host() == addresses_[options_.rank].Host();
}

int Congestion::OwnHostPeers() const {
  int count = 0;
  for (int peer = 0; peer < static_cast<int>(addresses_.size()); ++peer) {
    count += peer != options_.rank && OnOwnHost(peer);
  }
  return count;
}

std::string Congestion::Describe() const {
  if (!options_.congestion.empty()) return absl::StrCat(options_.congestion, " (asked for)");
  const int own_host = OwnHostPeers();
  return absl::StrCat(kOwnHostAlgorithm, " to ", own_host, " peers, the system's to ", addresses_.size() - 1 - own_host,
                      " (pacing only slows down connections within a host)");
}

}  // namespace tutti
