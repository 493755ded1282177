#include "src/rendezvous/rendezvous.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "src/base/host.h"
#include "src/base/log.h"
#include "src/base/status_macros.h"
#include "src/rendezvous/network.h"
#include "src/rendezvous/port_holder.h"
#include "src/store/stores.h"
#include "tutti/version.h"

namespace tutti {
namespace {

constexpr absl::Duration kResolvePause = absl::Milliseconds(500);
// Of our keys in the store.
constexpr const char* kPrefix = "tutti";

Identity IdentityOf(const Settings& settings) {
  const HostInfo host = ThisHost();
  Identity self;
  self.version = TUTTI_VERSION;
  self.job_id = settings.job_id;
  self.rank = settings.rank;
  self.world_size = settings.world_size;
  self.hostname = host.hostname;
  self.host_id = settings.host_id.empty() ? absl::StrCat(host.hostname, "/", host.boot_id) : settings.host_id;
  self.boot_id = host.boot_id;
  self.pid = host.pid;
  return self;
}

std::string Join(const std::vector<SocketAddress>& addresses) {
  return absl::StrJoin(addresses, ", ",
                       [](std::string* out, const SocketAddress& address) { out->append(address.Host()); });
}

// An IPv4 address in IPv6 clothes is one: listeners for IPv6 take IPv6 only.
SocketAddress WithoutMapping(const SocketAddress& address) {
  const std::string host = address.Host();
  absl::string_view v4 = host;
  if (address.family() != AF_INET6 || !absl::ConsumePrefix(&v4, "::ffff:")) return address;
  const absl::StatusOr<SocketAddress> plain = SocketAddress::Parse(absl::StrCat(v4, ":", address.port()));
  return plain.ok() ? *plain : address;
}

// Names may appear in the resolver after the job has started.
absl::StatusOr<std::vector<SocketAddress>> ResolveMaster(const Settings& settings, absl::Time deadline) {
  const absl::Time start = absl::Now();
  for (int attempts = 1;; ++attempts) {
    absl::StatusOr<std::vector<SocketAddress>> addresses = Resolve(settings.master_host, settings.master_port);
    if (addresses.ok()) {
      std::transform(addresses->begin(), addresses->end(), addresses->begin(), WithoutMapping);
      return addresses;
    }
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(
          absl::StrCat("the master's address is unknown: ", addresses.status().message(), "; tried ", attempts,
                       " times in ", absl::FormatDuration(absl::Trunc(absl::Now() - start, absl::Milliseconds(100))),
                       ": is the name right, and does the resolver of this host know it?"));
    }
    absl::SleepFor(std::min(left, kResolvePause));
  }
}

// /etc/hosts often gives a host's own name a loopback address, by which no other host can reach it.
bool IsLoopbackInDisguise(const Settings& settings, const SocketAddress& address) {
  const std::string& host = settings.master_host;
  const bool is_name = host != address.Host() && !absl::StrContains(host, ':');
  return address.IsLoopback() && is_name && host != "localhost" && !absl::StartsWith(host, "localhost.");
}

bool IsOfThisHost(const SocketAddress& address, const std::vector<Interface>& interfaces) {
  if (address.family() == AF_INET && address.IsLoopback()) return true;  // all of 127.0.0.0/8
  return std::any_of(interfaces.begin(), interfaces.end(),
                     [&](const Interface& interface) { return interface.address.Host() == address.Host(); });
}

SocketAddress Numeric(absl::string_view text, uint16_t port) { return SocketAddress::Parse(text)->WithPort(port); }

// The launcher's. A copy, so that the number stays good for a later group of this process.
absl::StatusOr<Fd> TakeStoreSocket(int number) {
  int listening = 0;
  socklen_t length = sizeof(listening);
  Fd fd(::fcntl(number, F_DUPFD_CLOEXEC, 3));
  if (!fd.valid() || ::getsockopt(fd.get(), SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) != 0 || listening == 0) {
    return absl::InvalidArgumentError(absl::StrCat("TUTTI_STORE_FD=", number,
                                                   ": the descriptor is no listening socket; the launcher sets this "
                                                   "variable, and it must not be copied by hand"));
  }
  const absl::StatusOr<SocketAddress> address = LocalAddress(fd.get());
  if (!address.ok() || (address->family() != AF_INET && address->family() != AF_INET6)) {
    return absl::InvalidArgumentError(absl::StrCat("TUTTI_STORE_FD=", number, ": the descriptor is no TCP socket"));
  }
  ::fcntl(number, F_SETFD, FD_CLOEXEC);
  ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
  return fd;
}

absl::StatusOr<Fd> ListenAt(const SocketAddress& address, const Identity& self) {
  absl::StatusOr<Fd> listener = Listen(address);
  if (listener.ok()) return listener;
  const std::string holder = DescribePortHolder(address, self);
  if (holder.empty()) return listener;
  return absl::AlreadyExistsError(absl::StrCat(holder, " (", address.ToString(), "): start each rank once, and give ",
                                               "each job a master port of its own"));
}

// The master's own address if it is one of this host, so that nothing listens on other networks.
absl::StatusOr<Fd> ListenForStore(const Settings& settings, const std::vector<SocketAddress>& master,
                                  const Identity& self) {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<Interface> interfaces, ListInterfaces());
  for (const SocketAddress& address : master) {
    if (IsLoopbackInDisguise(settings, address)) break;
    if (IsOfThisHost(address, interfaces)) return ListenAt(address, self);
  }
  if (!IsLoopbackInDisguise(settings, master.front())) {
    TUTTI_LOG_WARNING(
        "rendezvous: the master {} ({}) is not an address of this host, {}, where rank 0 runs: listening on all "
        "addresses; if the others do not get through, start rank 0 on the master",
        settings.master_host, Join(master), self.hostname);
  }
  const bool v6 = master.front().family() == AF_INET6;
  return ListenAt(Numeric(v6 ? "[::]:0" : "0.0.0.0:0", settings.master_port), self);
}

// Where rank 0 reaches its own listener.
std::vector<SocketAddress> OwnWay(const SocketAddress& listening) {
  if (listening.Host() == "0.0.0.0") return {Numeric("127.0.0.1:0", listening.port())};
  if (listening.Host() == "::") {
    return {Numeric("[::1]:0", listening.port()), Numeric("127.0.0.1:0", listening.port())};
  }
  return {listening};
}

// Rank 0's store: ends before the server that it talks to.
struct ServedStore {
  std::unique_ptr<TcpStoreServer> server;
  std::unique_ptr<Store> client;
};

absl::StatusOr<std::shared_ptr<Store>> ServeStore(EventLoop& loop, const Settings& settings,
                                                  const std::vector<SocketAddress>& master, MeetingPoint& point,
                                                  absl::Time deadline) {
  absl::StatusOr<Fd> listener =
      settings.store_fd >= 0 ? TakeStoreSocket(settings.store_fd) : ListenForStore(settings, master, point.self);
  if (!listener.ok()) return listener.status();
  const auto served = std::make_shared<ServedStore>();
  TUTTI_ASSIGN_OR_RETURN(served->server, TcpStoreServer::Start(loop, *std::move(listener), point.self));
  const SocketAddress address = served->server->address();
  TUTTI_ASSIGN_OR_RETURN(served->client, ConnectTcpStore(loop, OwnWay(address), point.self, deadline));
  point.choices.push_back(absl::StrCat("store = served at ", address.ToString(), " (",
                                       settings.store_fd >= 0 ? "the launcher's socket" : "this is rank 0", ")"));
  return std::shared_ptr<Store>(served, served->client.get());
}

absl::StatusOr<std::shared_ptr<Store>> ReachStore(EventLoop& loop, const Settings& settings,
                                                  const std::vector<SocketAddress>& master, MeetingPoint& point,
                                                  absl::Time deadline) {
  absl::StatusOr<std::unique_ptr<Store>> store = ConnectTcpStore(loop, master, point.self, deadline);
  if (!store.ok()) {
    const bool nobody = absl::IsUnavailable(store.status()) || absl::IsDeadlineExceeded(store.status());
    return absl::Status(store.status().code(),
                        absl::StrCat(Describe(point.self), " cannot join at the master ", settings.master_host,
                                     ", port ", settings.master_port, nobody ? " (is rank 0 started, and there?)" : "",
                                     ": ", store.status().message()));
  }
  point.choices.push_back(absl::StrCat("store = ", (*store)->Describe(), " (served by rank 0)"));
  return std::shared_ptr<Store>(*std::move(store));
}

// Without a master to go by, the way to the world outside: an address for documentation, to which nothing is sent.
absl::StatusOr<SocketAddress> DefaultRouteSource() {
  for (const char* outside : {"192.0.2.1:9", "[2001:db8::1]:9"}) {
    absl::StatusOr<SocketAddress> source = RouteSource(*SocketAddress::Parse(outside));
    if (source.ok()) return source;
  }
  return RouteSource(Numeric("127.0.0.1:0", 9));
}

absl::StatusOr<InterfaceChoice> ChooseAddress(const Settings& settings, const std::vector<SocketAddress>& master) {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<Interface> interfaces, ListInterfaces());
  absl::Status no_route;
  for (const SocketAddress& address : master) {
    if (IsLoopbackInDisguise(settings, address)) break;
    const absl::StatusOr<SocketAddress> source = RouteSource(address);
    if (source.ok()) return ChooseInterface(settings.socket_interface, interfaces, address, *source);
    no_route.Update(source.status());
  }
  if (!no_route.ok()) return no_route;
  TUTTI_ASSIGN_OR_RETURN(const SocketAddress source, DefaultRouteSource());
  return ChooseInterface(settings.socket_interface, interfaces, SocketAddress(), source);
}

}  // namespace

absl::StatusOr<MeetingPoint> Meet(EventLoop& loop, const Settings& settings, absl::Time deadline) {
  MeetingPoint point;
  point.self = IdentityOf(settings);
  std::vector<SocketAddress> master;
  if (settings.scheme == Scheme::kTcp) {
    TUTTI_ASSIGN_OR_RETURN(master, ResolveMaster(settings, deadline));
    point.choices.push_back(absl::StrCat("master = ", Join(master), " (from ", settings.master_host, ")"));
  }
  // First, because it fails for what is set wrong here, whatever the others do.
  TUTTI_ASSIGN_OR_RETURN(const InterfaceChoice choice, ChooseAddress(settings, master));
  point.address = choice.address;
  point.choices.push_back(absl::StrCat("interface = ", choice.address.Host(), " (", choice.reason, ")"));

  std::shared_ptr<Store> store;
  if (settings.scheme == Scheme::kFile) {
    TUTTI_ASSIGN_OR_RETURN(store, OpenFileStore(settings.file_path, point.self, deadline));
    point.choices.push_back(absl::StrCat("store = ", store->Describe()));
  } else if (settings.rank == 0) {
    TUTTI_ASSIGN_OR_RETURN(store, ServeStore(loop, settings, master, point, deadline));
  } else {
    TUTTI_ASSIGN_OR_RETURN(store, ReachStore(loop, settings, master, point, deadline));
  }
  point.store = MakePrefixStore(std::move(store), kPrefix);
  return point;
}

}  // namespace tutti
