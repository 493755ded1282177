// Shared settings: those that all ranks take from rank 0, because different ones would not work together.

#ifndef TUTTI_SRC_RENDEZVOUS_SHARED_SETTINGS_H_
#define TUTTI_SRC_RENDEZVOUS_SHARED_SETTINGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "src/rendezvous/environment.h"
#include "src/store/store.h"

namespace tutti {

// As Settings::origins names them.
inline constexpr const char* kSelectionSetting = "selection";
inline constexpr const char* kSocketsSetting = "sockets per peer";

// Rank 0 puts them into the store; the others wait for that, and replace their own. Returns one line for each setting
// that this rank had set to something else: the variable, this rank and its value, rank 0's value. A temporary refusal
// (come_again.h) if the store has ended.
absl::StatusOr<std::vector<std::string>> ShareSettings(Store& store, Settings& settings, absl::Time deadline);

}  // namespace tutti

#endif  // TUTTI_SRC_RENDEZVOUS_SHARED_SETTINGS_H_
