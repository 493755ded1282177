// FrameConnection: length-prefixed frames over one socket, on an event loop.
//
// A frame is a 4-byte magic, a 4-byte little-endian payload size, and the payload. Magic and size are checked before
// anything is allocated: a stranger (a web browser, a port scan) is told apart by its first bytes.
//
// Lives on its loop's thread.

#ifndef TUTTI_SRC_BASE_FRAME_CONNECTION_H_
#define TUTTI_SRC_BASE_FRAME_CONNECTION_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "src/base/event_loop.h"
#include "src/base/fd.h"
#include "src/base/socket.h"

namespace tutti {

class FrameConnection {
 public:
  // Never called inline; the connection may be destroyed in any of them.
  struct Callbacks {
    absl::AnyInvocable<void(std::string payload)> frame;
    // The connection has ended: OK at an orderly end between two frames, kInvalidArgument for bytes that are no frame
    // ("not a Tutti peer: starts with \"GET / HT\"") or too large a frame, kResourceExhausted for a peer that takes too
    // little, kDeadlineExceeded at the end of `grace`, else the socket's error. Does not name the peer: the owner knows
    // more of it. Last callback.
    absl::AnyInvocable<void(absl::Status why)> closed;
  };
  struct Limits {
    size_t frame_bytes = size_t{1} << 20;     // largest payload taken
    size_t backlog_bytes = size_t{64} << 20;  // unsent bytes above which the peer is given up as too slow
  };

  FrameConnection(EventLoop& loop, Fd socket, Limits limits, Callbacks callbacks);
  ~FrameConnection();  // closes at once, without a callback
  FrameConnection(const FrameConnection&) = delete;
  FrameConnection& operator=(const FrameConnection&) = delete;

  // Queues a frame; written later in this round of the loop, together with those that follow. No effect once ended.
  void Send(absl::string_view payload);
  // No more frames are taken; closes when everything queued is sent and the peer has closed, or after `grace`; then
  // calls `closed`.
  void CloseGracefully(absl::Duration grace);
  // Takes larger frames from now on: for a peer that has shown who it is.
  void set_limits(Limits limits);
  const SocketAddress& peer() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// The frame of a payload, for code that writes to a socket by itself.
std::string EncodeFrame(absl::string_view payload);

}  // namespace tutti

#endif  // TUTTI_SRC_BASE_FRAME_CONNECTION_H_
