#include "src/transport/tcp/send_queue.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace tutti {
namespace {

constexpr size_t kMessagesPerCall = 32;
// A long message is written in several calls, so that receiving gets its turn.
constexpr size_t kBytesPerCall = size_t{1} << 20;
// So few bytes are cheaper to copy together than to describe one by one.
constexpr size_t kCopiedBytes = 2048;

ssize_t Write(int fd, absl::Span<iovec> parts, size_t total) {
  constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
  if (total <= kCopiedBytes) {
    uint8_t bytes[kCopiedBytes];
    uint8_t* end = bytes;
    for (const iovec& part : parts) end = std::copy_n(static_cast<const uint8_t*>(part.iov_base), part.iov_len, end);
    return ::send(fd, bytes, total, kFlags);
  }
  msghdr message = {};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return ::sendmsg(fd, &message, kFlags);
}

}  // namespace

void SendQueue::Push(const MessageTag& tag, const void* data, uint64_t bytes, uint64_t cookie) {
  Item item = {.header = {}, .data = static_cast<const uint8_t*>(data), .bytes = bytes, .cookie = cookie};
  EncodeHeader(tag, bytes, item.header);
  Append(item);
}

void SendQueue::MoveFirstTo(SendQueue& other) {
  other.Append(at(0));
  PopFirst();
}

void SendQueue::Append(const Item& item) {
  if (count_ == ring_.size()) Grow();
  if (count_ == 0) offset_ = 0;
  at(count_++) = item;
}

void SendQueue::PopFirst() {
  first_ = (first_ + 1) & (ring_.size() - 1);
  --count_;
}

void SendQueue::Grow() {
  std::vector<Item> grown(std::max<size_t>(8, 2 * ring_.size()));
  for (size_t i = 0; i < count_; ++i) grown[i] = at(i);
  ring_ = std::move(grown);
  first_ = 0;
}

absl::StatusOr<bool> SendQueue::Flush(int fd, bool& writable, MessageSink& sink) {
  iovec parts[2 * kMessagesPerCall];
  size_t part_count = 0;
  size_t total = 0;
  auto add = [&](const uint8_t* data, uint64_t bytes) {
    bytes = std::min<uint64_t>(bytes, kBytesPerCall - total);
    parts[part_count++] = {.iov_base = const_cast<uint8_t*>(data), .iov_len = bytes};
    total += bytes;
  };
  for (size_t i = 0; i < std::min(count_, kMessagesPerCall) && total < kBytesPerCall; ++i) {
    const Item& item = at(i);
    const uint64_t done = i == 0 ? offset_ : 0;
    if (done < kMessageHeaderBytes) add(item.header.data() + done, kMessageHeaderBytes - done);
    const uint64_t payload_done = done - std::min<uint64_t>(done, kMessageHeaderBytes);
    if (payload_done < item.bytes) add(item.data + payload_done, item.bytes - payload_done);
  }

  const ssize_t written = Write(fd, {parts, part_count}, total);
  if (written < 0) {
    if (errno == EINTR) return false;
    if (errno != EAGAIN) return absl::UnavailableError(std::generic_category().message(errno));
    writable = false;
    return false;
  }
  if (static_cast<size_t>(written) < total) writable = false;
  Consume(written, sink);
  return true;
}

// Looks at the front afresh after each report: the sink may push.
void SendQueue::Consume(size_t written, MessageSink& sink) {
  offset_ += written;
  while (count_ > 0 && offset_ >= kMessageHeaderBytes + at(0).bytes) {
    const uint64_t cookie = at(0).cookie;
    offset_ -= kMessageHeaderBytes + at(0).bytes;
    PopFirst();
    sink.Sent(cookie);
  }
}

}  // namespace tutti
