// The kernels, once per instruction set. Each namespace is one translation unit: kernel_template.h compiled with that
// instruction set's flags. reduce.cc picks one of them at run time.
//
// Pure functions, safe to call from any thread, if the processor has the instructions.

#ifndef TUTTI_SRC_REDUCE_KERNELS_H_
#define TUTTI_SRC_REDUCE_KERNELS_H_

#include "src/reduce/reduce.h"
#include "tutti/data_type.h"

namespace tutti::baseline {
// Null functions for a pair that CheckReduction refuses.
ReduceKernels SelectKernels(DataType type, ReduceOp op);
}  // namespace tutti::baseline

namespace tutti::avx2 {
ReduceKernels SelectKernels(DataType type, ReduceOp op);
}  // namespace tutti::avx2

namespace tutti::avx512 {
ReduceKernels SelectKernels(DataType type, ReduceOp op);
}  // namespace tutti::avx512

#endif  // TUTTI_SRC_REDUCE_KERNELS_H_
