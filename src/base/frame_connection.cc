#include "src/base/frame_connection.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/frame_parser.h"
#include "src/base/system_error.h"

namespace tutti {

// Outlives the FrameConnection while one of its callbacks runs; the loop holds weak pointers only.
//
// kOpen  --CloseGracefully-->  kFlushing  --all sent, half closed-->  kDraining  --peer closed, or grace over--> kEnded
//    and from each of them, by an error or by the destructor, to kEnded.
struct FrameConnection::State : std::enable_shared_from_this<FrameConnection::State> {
  enum class Phase : uint8_t { kOpen, kFlushing, kDraining, kEnded };

  State(EventLoop& event_loop, Fd fd, Limits the_limits, Callbacks the_callbacks)
      : loop(event_loop),
        socket(std::move(fd)),
        limits(the_limits),
        callbacks(std::move(the_callbacks)),
        parser(limits.frame_bytes) {
    if (absl::StatusOr<SocketAddress> address = PeerAddress(socket.get()); address.ok()) peer = *address;
  }

  void Start();
  void Ready(uint32_t events);
  void Read();
  void Deliver();
  void EndOfStream();
  void PostFlush();
  void Flush();
  ssize_t WriteSome();
  void Consume(size_t bytes);
  void FailLater(absl::Status why);
  void End();
  void EndWith(absl::Status why);
  template <typename Function>
  absl::AnyInvocable<void()> WhileAlive(Function function);

  EventLoop& loop;
  Fd socket;
  SocketAddress peer;
  Limits limits;
  Callbacks callbacks;
  FrameParser parser;
  Phase phase = Phase::kOpen;
  std::deque<std::string> queue;  // encoded frames
  size_t front_sent = 0;          // bytes of the first one that are sent
  size_t queued_bytes = 0;        // unsent
  bool flush_posted = false;
  bool blocked = false;      // the socket's buffer is full: waiting for EPOLLOUT
  bool failing = false;      // a posted function will end it: nothing more is queued, so that no frame is left out
  absl::Status write_error;  // of a connection that is only read to its end
  std::optional<EventLoop::TimerId> grace_timer;
};

namespace {

constexpr size_t kReadBytes = size_t{64} << 10;
constexpr int kReadsPerRound = 16;  // then the loop's other connections have their turn
constexpr size_t kFramesPerWrite = 64;

}  // namespace

template <typename Function>
absl::AnyInvocable<void()> FrameConnection::State::WhileAlive(Function function) {
  return [weak = weak_from_this(), function = std::move(function)]() mutable {
    std::shared_ptr<State> state = weak.lock();
    if (state != nullptr && state->phase != Phase::kEnded) function(*state);
  };
}

void FrameConnection::State::Start() {
  absl::Status watched = loop.Watch(socket.get(), EPOLLIN, [weak = weak_from_this()](uint32_t events) {
    if (std::shared_ptr<State> state = weak.lock()) state->Ready(events);
  });
  if (!watched.ok()) FailLater(std::move(watched));
}

void FrameConnection::State::Ready(uint32_t events) {
  if ((events & EPOLLOUT) != 0) {
    blocked = false;
    loop.Rewatch(socket.get(), EPOLLIN);
    Flush();
  }
  // Errors show when reading, after the bytes that arrived before them.
  if (phase != Phase::kEnded && (events & ~uint32_t{EPOLLOUT}) != 0) Read();
}

void FrameConnection::State::Read() {
  std::array<char, kReadBytes> bytes;
  for (int i = 0; i < kReadsPerRound && phase != Phase::kEnded; ++i) {
    const ssize_t count = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
    if (count == 0) return EndOfStream();
    if (count < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) EndWith(SystemError(errno, "the connection broke"));
      return;
    }
    if (phase == Phase::kOpen) {
      parser.Append({bytes.data(), static_cast<size_t>(count)});
      Deliver();
    }
    if (static_cast<size_t>(count) < bytes.size()) return;
  }
}

void FrameConnection::State::Deliver() {
  while (phase == Phase::kOpen) {
    absl::StatusOr<std::optional<std::string>> frame = parser.Next();
    if (!frame.ok()) return EndWith(std::move(frame).status());
    if (!frame->has_value()) return;
    callbacks.frame(**std::move(frame));
  }
}

void FrameConnection::State::EndOfStream() {
  if (!write_error.ok()) return EndWith(write_error);
  if (phase == Phase::kOpen && !parser.AtBoundary()) {
    return EndWith(absl::UnavailableError("the peer closed the connection in the middle of a frame"));
  }
  EndWith(absl::OkStatus());
}

void FrameConnection::State::PostFlush() {
  if (flush_posted || blocked) return;
  flush_posted = true;
  loop.Post(WhileAlive([](State& state) {
    state.flush_posted = false;
    state.Flush();
  }));
}

void FrameConnection::State::Flush() {
  while (!queue.empty()) {
    const ssize_t count = WriteSome();
    if (count >= 0) {
      Consume(static_cast<size_t>(count));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN) {
      blocked = true;
      return loop.Rewatch(socket.get(), EPOLLIN | EPOLLOUT);
    }
    // The peer may have said why before it closed. EPIPE is an end in order, as long as that is all there is to read.
    if (errno != EPIPE) write_error = SystemError(errno, "the connection broke");
    Read();
    if (phase != Phase::kEnded) EndOfStream();
    return;
  }
  if (phase != Phase::kFlushing) return;
  phase = Phase::kDraining;
  ::shutdown(socket.get(), SHUT_WR);
}

ssize_t FrameConnection::State::WriteSome() {
  std::array<iovec, kFramesPerWrite> parts;
  const size_t count = std::min(queue.size(), parts.size());
  for (size_t i = 0; i < count; ++i) parts[i] = {queue[i].data(), queue[i].size()};
  parts[0] = {queue[0].data() + front_sent, queue[0].size() - front_sent};
  msghdr message = {};
  message.msg_iov = parts.data();
  message.msg_iovlen = count;
  return ::sendmsg(socket.get(), &message, MSG_NOSIGNAL);
}

void FrameConnection::State::Consume(size_t bytes) {
  queued_bytes -= bytes;
  front_sent += bytes;
  while (!queue.empty() && front_sent >= queue.front().size()) {
    front_sent -= queue.front().size();
    queue.pop_front();
  }
}

void FrameConnection::State::FailLater(absl::Status why) {
  failing = true;
  loop.Post(WhileAlive([why = std::move(why)](State& state) { state.EndWith(why); }));
}

void FrameConnection::State::End() {
  if (phase == Phase::kEnded) return;
  phase = Phase::kEnded;
  loop.Unwatch(socket.get());
  if (grace_timer) loop.Cancel(*grace_timer);
  socket.Close();
  queue.clear();
  queued_bytes = 0;
}

void FrameConnection::State::EndWith(absl::Status why) {
  End();
  callbacks.closed(std::move(why));
}

FrameConnection::FrameConnection(EventLoop& loop, Fd socket, Limits limits, Callbacks callbacks)
    : state_(std::make_shared<State>(loop, std::move(socket), limits, std::move(callbacks))) {
  state_->Start();
}

FrameConnection::~FrameConnection() { state_->End(); }

void FrameConnection::Send(absl::string_view payload) {
  State& state = *state_;
  if (state.phase != State::Phase::kOpen || state.failing) return;
  if (state.queued_bytes + payload.size() > state.limits.backlog_bytes ||
      payload.size() > std::numeric_limits<uint32_t>::max()) {
    return state.FailLater(absl::ResourceExhaustedError(
        absl::StrCat("the peer takes too little: ", state.queued_bytes, " bytes are unsent, and ", payload.size(),
                     " more would exceed the limit of ", state.limits.backlog_bytes)));
  }
  state.queue.push_back(EncodeFrame(payload));
  state.queued_bytes += state.queue.back().size();
  state.PostFlush();
}

void FrameConnection::CloseGracefully(absl::Duration grace) {
  State& state = *state_;
  if (state.phase != State::Phase::kOpen) return;
  state.phase = State::Phase::kFlushing;
  state.grace_timer = state.loop.After(grace, state.WhileAlive([](State& self) {
    self.grace_timer.reset();
    self.EndWith(absl::DeadlineExceededError(self.queue.empty()
                                                 ? "the peer did not close its side in time"
                                                 : absl::StrCat(self.queued_bytes, " bytes were left unsent")));
  }));
  state.PostFlush();
}

void FrameConnection::set_limits(Limits limits) {
  state_->limits = limits;
  state_->parser.set_frame_bytes_max(limits.frame_bytes);
}

const SocketAddress& FrameConnection::peer() const { return state_->peer; }

}  // namespace tutti
