#include "src/rendezvous/port_holder.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "src/base/frame_connection.h"
#include "src/base/frame_parser.h"
#include "src/rendezvous/parse.h"

namespace tutti {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(1);

// The first frame that comes.
std::optional<std::string> ReadFrame(int fd, size_t bytes_max, absl::Time deadline) {
  FrameParser parser(bytes_max);
  while (true) {
    absl::StatusOr<std::optional<std::string>> frame = parser.Next();
    if (!frame.ok() || frame->has_value()) return frame.value_or(std::nullopt);
    pollfd readable{fd, POLLIN, 0};
    const int64_t left_ms = std::max<int64_t>(0, absl::ToInt64Milliseconds(deadline - absl::Now()));
    if (::poll(&readable, 1, static_cast<int>(left_ms)) <= 0) return std::nullopt;
    std::array<char, 4096> bytes;
    const ssize_t count = ::recv(fd, bytes.data(), bytes.size(), 0);
    if (count <= 0) return std::nullopt;
    parser.Append({bytes.data(), static_cast<size_t>(count)});
  }
}

}  // namespace

std::string DescribePortHolder(const SocketAddress& address, const Identity& self) {
  const absl::StatusOr<Fd> socket = ConnectAny({address}, absl::Now() + kLimit);
  if (!socket.ok()) return "";
  Hello hello;
  hello.purpose = "store";
  hello.from = self;
  const std::string frame = EncodeFrame(Encode(hello));
  ::send(socket->get(), frame.data(), frame.size(), MSG_NOSIGNAL);
  const std::string reply = ReadFrame(socket->get(), kHelloBytesMax, absl::Now() + kLimit).value_or("");
  const absl::StatusOr<Hello> holder = DecodeHello(reply);
  if (!holder.ok()) return absl::StrCat("port ", address.port(), " is in use by another program");
  if (holder->from.job_id == self.job_id && holder->from.rank == self.rank) {
    return absl::StrCat("another rank ", self.rank, " of this job, ", Describe(holder->from), ", owns port ",
                        address.port());
  }
  return absl::StrCat("port ", address.port(), " belongs to ", Describe(holder->from), " of job ",
                      Quoted(holder->from.job_id));
}

}  // namespace tutti
