// Everything that Tutti offers: collectives and gradient synchronisation for C++ training loops.

#ifndef TUTTI_TUTTI_H_
#define TUTTI_TUTTI_H_

#include "tutti/buffer.h"             // IWYU pragma: export
#include "tutti/data_type.h"          // IWYU pragma: export
#include "tutti/gradient_bucketer.h"  // IWYU pragma: export
#include "tutti/process_group.h"      // IWYU pragma: export
#include "tutti/tensor.h"             // IWYU pragma: export
#include "tutti/version.h"            // IWYU pragma: export
#include "tutti/work.h"               // IWYU pragma: export

#endif  // TUTTI_TUTTI_H_
