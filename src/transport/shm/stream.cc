#include "src/transport/shm/stream.h"

#include <algorithm>
#include <optional>

namespace tutti {
namespace {

static_assert(kMessageHeaderBytes <= kLine);

// The other side can begin with so much while more is being copied.
constexpr uint64_t kCopyBytes = 32 << 10;

}  // namespace

void Stream::Push(const MessageTag& tag, const void* data, uint64_t bytes, uint64_t cookie) {
  Message& message = queue_.emplace_back();
  EncodeHeader(tag, bytes, message.header);
  message.data = static_cast<const std::byte*>(data);
  message.bytes = bytes;
  message.cookie = cookie;
}

bool Stream::Send(MessageSink& sink) {
  bool moved = false;
  while (!queue_.empty() && Write(sink)) moved = true;
  return moved;
}

// A header, or a part of a payload. False if there is no room.
bool Stream::Write(MessageSink& sink) {
  const Message& message = queue_.front();
  if (!header_written_) {
    if (writer_.Room() < kLine) return false;
    writer_.Write(message.header.data(), kMessageHeaderBytes);
    header_written_ = true;
    written_ = 0;
  } else {
    const uint64_t count = std::min({message.bytes - written_, uint64_t{writer_.Room()}, kCopyBytes});
    if (count == 0) return false;
    writer_.Write(message.data + written_, count);
    written_ += count;
  }
  if (written_ < message.bytes) {
    writer_.Publish();
    return true;
  }
  writer_.EndMessage();
  writer_.Publish();
  header_written_ = false;
  const uint64_t cookie = message.cookie;
  queue_.pop_front();
  sink.Sent(cookie);
  return true;
}

bool Stream::Receive(MessageSink& sink) {
  bool moved = false;
  while (expected_ > 0 && !broken_) {
    if (state_ == State::kHeader && !ReadHeader()) return moved;
    if (state_ == State::kRefused) return moved;
    if (state_ == State::kOffered) {
      const MessageSink::Delivery delivery = sink.Arrived(peer_, channel_, message_.tag, message_.bytes);
      if (delivery.verdict == MessageSink::Verdict::kRefuse) state_ = State::kRefused;
      if (delivery.verdict != MessageSink::Verdict::kTake) return moved;
      state_ = State::kPayload;
      destination_ = static_cast<std::byte*>(delivery.destination);
      read_ = 0;
    }
    if (!ReadPayload(sink)) return moved;
    moved = true;
  }
  return moved;
}

bool Stream::ReadHeader() {
  const size_t available = reader_.Available();
  broken_ |= reader_.IsBroken();
  if (broken_ || available < kMessageHeaderBytes) return false;
  uint8_t bytes[kMessageHeaderBytes];
  reader_.Read(bytes, sizeof(bytes));
  const std::optional<DecodedHeader> header = DecodeHeader(bytes);
  if (!header.has_value()) {
    broken_ = true;
    return false;
  }
  message_ = *header;
  state_ = State::kOffered;
  return true;
}

// A part of it. False if there is nothing.
bool Stream::ReadPayload(MessageSink& sink) {
  if (read_ < message_.bytes) {
    const uint64_t count = std::min({message_.bytes - read_, uint64_t{reader_.Available()}, kCopyBytes});
    broken_ |= reader_.IsBroken();
    if (count == 0 || broken_) return false;
    reader_.Read(destination_ + read_, count);
    read_ += count;
  }
  if (read_ == message_.bytes) reader_.EndMessage();
  reader_.Publish();
  if (read_ < message_.bytes) return true;
  state_ = State::kHeader;
  --expected_;
  sink.Received(peer_, channel_, message_.tag);
  return true;
}

bool Stream::CanMove() {
  if (!queue_.empty() && writer_.Room() >= kLine) return true;
  if (expected_ <= 0 || broken_) return false;
  switch (state_) {
    case State::kHeader:
      return reader_.Available() >= kMessageHeaderBytes;
    case State::kPayload:
      return reader_.Available() > 0;
    case State::kOffered:
    case State::kRefused:
      return false;
  }
  return false;
}

}  // namespace tutti
