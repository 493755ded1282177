// Work: one collective in flight.

#ifndef TUTTI_WORK_H_
#define TUTTI_WORK_H_

#include <string>
#include <utility>

#include "absl/status/status.h"

namespace tutti {

// The state of one operation, kept by the engine that runs it.
class Operation {
 public:
  virtual absl::Status Wait() = 0;
  virtual bool Done() const = 0;
  virtual int source() const = 0;
  virtual std::string Describe() const = 0;

  // Reference count; the engine recycles the object when it drops to zero.
  virtual void Ref() = 0;
  virtual void Unref() = 0;

 protected:
  ~Operation() = default;
};

// A handle to one operation. Movable and copyable; copies name the same operation. Any thread may wait, any number of
// times.
//
// Until Wait has returned or Done is true, the library may read the operation's inputs and write its outputs: the
// caller touches neither. When Wait has returned, or Done has returned true, everything the operation wrote is visible
// to the calling thread (it happens-before the return). After an error the outputs are unspecified, and nothing below
// touches them any more.
//
// A dropped handle does not cancel the operation: it completes in the background, and an error is not lost but becomes
// the error of every later operation of the group.
class [[nodiscard]] Work {
 public:
  // Done at once, with this status.
  explicit Work(absl::Status status) : status_(std::move(status)) {}
  // Takes over one reference.
  explicit Work(Operation* operation) : operation_(operation) {}

  Work(const Work& other) : status_(other.status_), operation_(other.operation_) {
    if (operation_ != nullptr) operation_->Ref();
  }
  Work(Work&& other) noexcept
      : status_(std::move(other.status_)), operation_(std::exchange(other.operation_, nullptr)) {}
  Work& operator=(Work other) noexcept {
    std::swap(status_, other.status_);
    std::swap(operation_, other.operation_);
    return *this;
  }
  ~Work() {
    if (operation_ != nullptr) operation_->Unref();
  }

  // Blocks until the result may be read, or the operation has failed. The calling thread moves the data itself where it
  // can, so that no thread has to be woken. Ends at the operation's deadline at the latest. Errors:
  //   kInvalidArgument    this rank passed something that can never work; nothing was sent
  //   kFailedPrecondition ranks disagree about the operation; the message names each side
  //   kUnavailable        a rank died or cannot be reached; the message names it
  //   kDeadlineExceeded   a rank did not arrive in time; the message names it
  //   kAborted            a rank called Abort, with the message it gave
  absl::Status Wait() { return operation_ != nullptr ? operation_->Wait() : status_; }

  // Whether Wait would return at once.
  bool Done() const { return operation_ == nullptr || operation_->Done(); }

  // Of a receive that is done without an error: the rank that the message came from. Otherwise -1.
  int source() const { return operation_ != nullptr ? operation_->source() : -1; }

  // For people: what the operation is, and which algorithm, chunk and number of sockets it takes, and why. "all-reduce
  // of 409600 float32, sum: direct in 4 segments of 524288 bytes, 1 socket per peer (fewest bytes, two steps)".
  std::string Describe() const { return operation_ != nullptr ? operation_->Describe() : status_.ToString(); }

 private:
  absl::Status status_;
  Operation* operation_ = nullptr;
};

}  // namespace tutti

#endif  // TUTTI_WORK_H_
