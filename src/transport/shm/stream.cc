#include "src/transport/shm/stream.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace tutti {
namespace {

// In front of every message: its header, and where its payload lies.
struct Head {
  MessageHeader header;
  SharedPlace place;
};
static_assert(sizeof(Head) <= kLine);

// Smaller payloads are copied sooner than looked up.
constexpr uint64_t kFetchedBytes = 32 << 10;

// The other side can begin with so much while more is being copied.
constexpr uint64_t kCopyBytes = 32 << 10;

}  // namespace

void Stream::Push(const MessageTag& tag, const void* data, uint64_t bytes, uint64_t cookie) {
  if (first_ > 0 && queue_.size() == queue_.capacity()) {
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<ptrdiff_t>(first_));
    first_ = 0;
  }
  Message& message = queue_.emplace_back();
  EncodeHeader(tag, bytes, message.header);
  message.data = static_cast<const std::byte*>(data);
  message.bytes = bytes;
  message.cookie = cookie;
  message.place = bytes >= kFetchedBytes ? exchange_.Share(data, bytes) : SharedPlace{};
}

bool Stream::Send(MessageSink& sink) {
  bool moved = lent() && ReportFetched(sink);
  while (queued() && Write(sink)) moved = true;
  return moved;
}

bool Stream::ReportFetched(MessageSink& sink) {
  const uint64_t read = writer_.ReadByPeer();
  size_t fetched = 0;
  while (fetched < lent_.size() && lent_[fetched].end <= read) ++fetched;
  // The sink may lend more.
  for (size_t i = 0; i < fetched; ++i) sink.Sent(lent_[i].cookie);
  lent_.erase(lent_.begin(), lent_.begin() + static_cast<ptrdiff_t>(fetched));
  return fetched > 0;
}

// A header, or a part of a payload. False if there is no room.
bool Stream::Write(MessageSink& sink) {
  const Message& message = queue_[first_];
  if (!header_written_) {
    if (writer_.Room() < kLine) return false;
    const Head head = {.header = message.header, .place = message.place};
    writer_.Write(&head, sizeof(head));
    header_written_ = true;
    written_ = message.place.id == 0 ? 0 : message.bytes;
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
  const bool lend = message.place.id != 0;
  if (lend) {
    lent_.push_back(message);
    lent_.back().end = writer_.position();
  }
  if (++first_ == queue_.size()) {
    queue_.clear();
    first_ = 0;
  }
  if (!lend) sink.Sent(cookie);
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
  if (broken_ || available < sizeof(Head)) return false;
  Head head;
  reader_.Read(&head, sizeof(head));
  const std::optional<DecodedHeader> header = DecodeHeader(head.header.data());
  if (!header.has_value()) {
    broken_ = true;
    return false;
  }
  message_ = *header;
  place_ = head.place;
  state_ = State::kOffered;
  return true;
}

// A part of it. False if there is nothing.
bool Stream::ReadPayload(MessageSink& sink) {
  if (read_ < message_.bytes && place_.id != 0) {
    const absl::StatusOr<std::byte*> payload = exchange_.Resolve(index_, place_, message_.bytes);
    broken_ |= !payload.ok();
    if (broken_) return false;
    std::memcpy(destination_, *payload, message_.bytes);
    read_ = message_.bytes;
  } else if (read_ < message_.bytes) {
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
  if (queued() && writer_.Room() >= kLine) return true;
  if (lent() && lent_[0].end <= writer_.ReadByPeer()) return true;
  if (expected_ <= 0 || broken_) return false;
  switch (state_) {
    case State::kHeader:
      return reader_.Available() >= sizeof(Head);
    case State::kPayload:
      return place_.id != 0 || reader_.Available() > 0;
    case State::kOffered:
    case State::kRefused:
      return false;
  }
  return false;
}

}  // namespace tutti
