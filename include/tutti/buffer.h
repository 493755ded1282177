// Buffer: memory that the library allocated.

#ifndef TUTTI_BUFFER_H_
#define TUTTI_BUFFER_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "tutti/tensor.h"

namespace tutti {

// Owns zero-filled, page-aligned memory from ProcessGroup::Allocate. Ranks of one host reduce tensors that lie in a
// Buffer where they are, if all ranks' do, and copy others: use it for what is reduced often. Until the operation has
// ended, other ranks write to it; when it has ended, with or without an error, none does.
//
// Movable; the memory does not move with it. It must outlive every operation on it. It need not be destroyed before its
// group. Not synchronised.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::shared_ptr<void> memory, size_t bytes) : memory_(std::move(memory)), bytes_(bytes) {}

  void* data() const { return memory_.get(); }
  size_t bytes() const { return bytes_; }

  // `count` elements from byte `offset` on. The caller keeps within bytes().
  Tensor tensor(size_t offset, size_t count, DataType type) const {
    return {static_cast<std::byte*>(memory_.get()) + offset, count, type};
  }

 private:
  std::shared_ptr<void> memory_;
  size_t bytes_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_BUFFER_H_
