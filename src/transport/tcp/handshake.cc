#include "src/transport/tcp/handshake.h"

#include <poll.h>
#include <sys/socket.h>

#include <cassert>
#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "src/base/frame_connection.h"
#include "src/base/frame_parser.h"
#include "src/base/status_macros.h"
#include "src/transport/message_header.h"

namespace tutti {
namespace {

constexpr size_t kFrameHeaderBytes = 8;

absl::Status SocketError() { return absl::UnavailableError(std::generic_category().message(errno)); }

}  // namespace

Handshake Handshake::Call(Fd socket, const SocketAddress& to, const Hello& hello) {
  Handshake handshake(std::move(socket), to, State::kConnecting, /*is_caller=*/true);
  handshake.out_ = EncodeFrame(Encode(hello));
  return handshake;
}

Handshake Handshake::Receive(Fd socket, const SocketAddress& from) {
  return Handshake(std::move(socket), from, State::kReading, /*is_caller=*/false);
}

void Handshake::Answer(const Hello& hello) {
  assert(state_ == State::kHeard);
  out_ = EncodeFrame(Encode(hello));
  state_ = State::kWriting;
}

absl::Status Handshake::Advance() {
  while (true) {
    const bool connecting = state_ == State::kConnecting;
    const absl::StatusOr<bool> changed = Step();
    if (!changed.ok()) return connecting ? changed.status() : AtAddress(changed.status());
    if (!*changed) return absl::OkStatus();
  }
}

absl::Status Handshake::TimedOut(absl::Duration limit) const {
  const absl::string_view what = state_ == State::kConnecting ? "no answer (dropped by a firewall?)"
                                 : is_caller_                 ? "connected, but no hello came (stopped, or too busy?)"
                                                              : "no hello came";
  return AtAddress(absl::DeadlineExceededError(absl::StrCat(what, " within ", absl::FormatDuration(limit))));
}

absl::Status Handshake::AtAddress(const absl::Status& status) const {
  return absl::Status(status.code(), absl::StrCat(address_.ToString(), ": ", status.message()));
}

absl::StatusOr<bool> Handshake::Step() {
  switch (state_) {
    case State::kConnecting:
      return Connect();
    case State::kReading:
      return Read();
    case State::kWriting:
      return Write();
    case State::kHeard:
    case State::kDone:
      return false;
  }
  return false;
}

absl::StatusOr<bool> Handshake::Connect() {
  pollfd decided = {.fd = socket_.get(), .events = POLLOUT, .revents = 0};
  if (::poll(&decided, 1, 0) <= 0) return false;
  TUTTI_RETURN_IF_ERROR(FinishConnect(socket_.get(), address_));
  state_ = State::kWriting;
  return true;
}

absl::StatusOr<bool> Handshake::Write() {
  while (!out_.empty()) {
    const ssize_t count = ::send(socket_.get(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return false;
    if (count < 0) return SocketError();
    out_.erase(0, count);
  }
  state_ = is_caller_ ? State::kReading : State::kDone;
  return true;
}

absl::StatusOr<bool> Handshake::Read() {
  while (true) {
    TUTTI_ASSIGN_OR_RETURN(const size_t wanted, BytesWanted());
    if (wanted == 0) break;
    char buffer[kHelloBytesMax];
    const ssize_t count = ::recv(socket_.get(), buffer, wanted, MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return false;
    if (count < 0) return SocketError();
    if (count == 0) return absl::UnavailableError("it closed the connection without a hello");
    in_.append(buffer, count);
  }
  TUTTI_ASSIGN_OR_RETURN(peer_hello_, DecodeHello(absl::string_view(in_).substr(kFrameHeaderBytes)));
  state_ = is_caller_ ? State::kDone : State::kHeard;
  return true;
}

// Of the hello's frame: 0 when it is complete. At most kHelloBytesMax.
absl::StatusOr<size_t> Handshake::BytesWanted() const {
  FrameParser parser(kHelloBytesMax);
  parser.Append(absl::string_view(in_).substr(0, kFrameHeaderBytes));
  TUTTI_RETURN_IF_ERROR(parser.Next().status());
  if (in_.size() < kFrameHeaderBytes) return kFrameHeaderBytes - in_.size();
  const uint32_t payload_bytes = LoadLittleEndian<uint32_t>(reinterpret_cast<const uint8_t*>(in_.data()) + 4);
  return kFrameHeaderBytes + payload_bytes - in_.size();
}

}  // namespace tutti
