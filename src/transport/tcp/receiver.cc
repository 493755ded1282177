#include "src/transport/tcp/receiver.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>

#include "src/base/status_macros.h"

namespace tutti {
namespace {

constexpr size_t kStagingBytes = 8192;

}  // namespace

bool Receiver::CanContinue(bool readable) const {
  switch (state_) {
    case State::kHeader:
      return readable || staged() >= kMessageHeaderBytes;
    case State::kPayload:
      return readable;
    case State::kOffered:
    case State::kRefused:
      return false;
  }
  return false;
}

absl::StatusOr<bool> Receiver::Receive(int fd, int peer, Channel channel, int64_t& expected, bool& readable,
                                       MessageSink& sink) {
  bool moved = false;
  while (expected > 0 && state_ != State::kRefused) {
    const bool header_missing = state_ == State::kHeader && staged() < kMessageHeaderBytes;
    if (header_missing || (state_ == State::kPayload && done_ < message_.bytes)) {
      if (!readable) return moved;
      TUTTI_ASSIGN_OR_RETURN(const bool read, Read(fd, readable));
      moved |= read;
      continue;
    }
    if (state_ == State::kHeader) TUTTI_RETURN_IF_ERROR(ParseHeader());
    if (state_ == State::kOffered) {
      if (!Offer(peer, channel, sink)) return moved;
      moved = true;
      continue;
    }
    state_ = State::kHeader;
    --expected;
    sink.Received(peer, channel, message_.tag);
    moved = true;
  }
  return moved;
}

absl::Status Receiver::ParseHeader() {
  const std::optional<DecodedHeader> header = DecodeHeader(staging_.get() + staged_begin_);
  if (!header) return absl::InvalidArgumentError("it sent bytes that are no Tutti message");
  message_ = *header;
  staged_begin_ += kMessageHeaderBytes;
  state_ = State::kOffered;
  return absl::OkStatus();
}

bool Receiver::Offer(int peer, Channel channel, MessageSink& sink) {
  const MessageSink::Delivery delivery = sink.Arrived(peer, channel, message_.tag, message_.bytes);
  if (delivery.verdict == MessageSink::Verdict::kRefuse) state_ = State::kRefused;
  if (delivery.verdict != MessageSink::Verdict::kTake) return false;
  state_ = State::kPayload;
  destination_ = static_cast<uint8_t*>(delivery.destination);
  done_ = std::min<uint64_t>(message_.bytes, staged());
  if (done_ > 0) std::memcpy(destination_, staging_.get() + staged_begin_, done_);
  staged_begin_ += done_;
  return true;
}

// Reads once. In state kPayload the staging buffer is empty: what it held belongs to the payload.
absl::StatusOr<bool> Receiver::Read(int fd, bool& readable) {
  if (staging_ == nullptr) staging_ = std::make_unique<uint8_t[]>(kStagingBytes);
  if (staged() > 0) std::memmove(staging_.get(), staging_.get() + staged_begin_, staged());
  staged_end_ = staged();
  staged_begin_ = 0;

  const uint64_t payload_bytes = state_ == State::kPayload ? message_.bytes - done_ : 0;
  iovec parts[2] = {{.iov_base = payload_bytes > 0 ? destination_ + done_ : nullptr, .iov_len = payload_bytes},
                    {.iov_base = staging_.get() + staged_end_, .iov_len = kStagingBytes - staged_end_}};
  ssize_t count;
  if (payload_bytes == 0) {
    count = ::recv(fd, parts[1].iov_base, parts[1].iov_len, MSG_DONTWAIT);
  } else {
    msghdr message = {};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    count = ::recvmsg(fd, &message, MSG_DONTWAIT);
  }
  if (count < 0) {
    if (errno == EINTR) return false;
    if (errno != EAGAIN) return absl::UnavailableError(std::generic_category().message(errno));
    readable = false;
    return false;
  }
  if (count == 0) return absl::UnavailableError("it closed the connection");
  const uint64_t to_payload = std::min<uint64_t>(count, payload_bytes);
  if (static_cast<uint64_t>(count) < payload_bytes + parts[1].iov_len) readable = false;
  done_ += to_payload;
  staged_end_ += count - to_payload;
  return true;
}

}  // namespace tutti
