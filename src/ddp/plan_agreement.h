// Whether all ranks of a group have the same model and options.

#ifndef TUTTI_SRC_DDP_PLAN_AGREEMENT_H_
#define TUTTI_SRC_DDP_PLAN_AGREEMENT_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/ddp/model_description.h"
#include "tutti/process_group.h"

namespace tutti {

// A collective, with the same outcome on every rank: OK, or what differs, or why some rank cannot take part. One
// all-gather of 24 bytes if all is well; only ranks that differ send their descriptions. If nothing but names differs,
// rank 0 logs a warning. `timeout` is that of each operation; zero: the group's.
absl::Status AgreeOnModel(ProcessGroup& group, const ModelDescription& description, absl::Duration timeout);

}  // namespace tutti

#endif  // TUTTI_SRC_DDP_PLAN_AGREEMENT_H_
