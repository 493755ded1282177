// Elements whose reduction is known: small whole numbers that depend on rank and index.

#ifndef TUTTI_BENCH_ALLREDUCE_BENCH_ELEMENTS_H_
#define TUTTI_BENCH_ALLREDUCE_BENCH_ELEMENTS_H_

#include <cstdint>

#include "tutti/data_type.h"
#include "tutti/tensor.h"

namespace tutti {

// Rank `rank`'s input. Exact in every type, and so are the sums of up to 16 ranks in 16 bits, and far more in others.
void FillElements(Tensor data, ReduceOp op, int rank);

struct WrongElements {
  uint64_t count = 0;
  uint64_t first = 0;
};
// Compares with elements `first`... of the reduction over ranks 0..size-1: sums, products, minima and maxima exactly
// (integers wrap around), averages within one unit in the last place.
WrongElements CompareReduced(Tensor data, ReduceOp op, int size, uint64_t first);
// Compares with elements `first`... of rank `rank`'s input.
WrongElements CompareCopied(Tensor data, ReduceOp op, int rank, uint64_t first);

// Makes one element wrong.
void CorruptElement(Tensor data, uint64_t index);

}  // namespace tutti

#endif  // TUTTI_BENCH_ALLREDUCE_BENCH_ELEMENTS_H_
