// TUTTI_RETURN_IF_ERROR(expression), TUTTI_ASSIGN_OR_RETURN(lhs, expression).

#ifndef TUTTI_SRC_BASE_STATUS_MACROS_H_
#define TUTTI_SRC_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define TUTTI_RETURN_IF_ERROR(expression)                                                  \
  do {                                                                                     \
    if (absl::Status tutti_status = (expression); !tutti_status.ok()) return tutti_status; \
  } while (false)

#define TUTTI_ASSIGN_OR_RETURN(lhs, expression) \
  TUTTI_ASSIGN_OR_RETURN_(TUTTI_CONCAT_(tutti_statusor_, __LINE__), lhs, expression)
#define TUTTI_ASSIGN_OR_RETURN_(statusor, lhs, expression) \
  auto statusor = (expression);                            \
  if (!statusor.ok()) return std::move(statusor).status(); \
  lhs = *std::move(statusor)
#define TUTTI_CONCAT_(a, b) TUTTI_CONCAT_INNER_(a, b)
#define TUTTI_CONCAT_INNER_(a, b) a##b

#endif  // TUTTI_SRC_BASE_STATUS_MACROS_H_
