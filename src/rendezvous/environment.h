// Environment: every variable that Tutti reads, in one place.
//
// The variables are passed in, so that tests need no setenv. ResolveSettings turns the caller's options and the
// variables into settings, or into one message that lists every problem. docs/ENVIRONMENT.md is the manual.

#ifndef TUTTI_SRC_RENDEZVOUS_ENVIRONMENT_H_
#define TUTTI_SRC_RENDEZVOUS_ENVIRONMENT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "src/base/socket.h"
#include "tutti/process_group.h"

namespace tutti {

class Environment {
 public:
  static Environment OfProcess();
  explicit Environment(std::map<std::string, std::string> variables) : variables_(std::move(variables)) {}
  std::optional<std::string> Get(absl::string_view name) const;

 private:
  std::map<std::string, std::string> variables_;
};

inline constexpr size_t kSelectionBytesMax = size_t{64} << 10;
inline constexpr int kSocketsMax = 16;  // per peer

enum class Scheme : uint8_t { kTcp, kFile };

struct Settings {
  int rank = 0;
  int world_size = 1;
  Scheme scheme = Scheme::kTcp;
  std::string master_host;  // kTcp; without brackets
  uint16_t master_port = 0;
  std::string file_path;  // kFile; absolute
  // The launcher's listening socket for the store, to be used by rank 0 instead of binding master_port. -1: none.
  int store_fd = -1;

  std::string job_id = "default";
  absl::Duration timeout = absl::Minutes(5);
  std::string host_id;           // TUTTI_HOST_ID or NCCL_HOSTID; empty: hostname and boot id
  std::string socket_interface;  // specification for network.h; empty: by route
  PortRange ports;
  bool shared_memory = true;   // TUTTI_SHARED_MEMORY; of this rank: it shares none with anybody if not
  std::string tcp_congestion;  // TUTTI_TCP_CONGESTION; empty: chosen per path
  std::string log_level = "warning";
  // How long ranks wait for others until rank 0 logs who is missing.
  absl::Duration straggler_warning = absl::Seconds(30);

  // Rank 0's are used by all ranks (shared_settings.h).
  std::string selection;     // rules that go before the built-in switch points; ASCII, at most kSelectionBytesMax
  int sockets_per_peer = 0;  // 0: by path

  // "rank = 3 (from OMPI_COMM_WORLD_RANK)", one per setting.
  std::vector<std::string> origins;
};

// Precedence per setting: options and URL; RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, LOCAL_RANK; then the launchers'
// own variables: Open MPI (OMPI_COMM_WORLD_*), MPICH and others (PMI_*, PMIX_*); then Slurm's (SLURM_*). Two sources
// that disagree, above and below, are an error, except where the lower one is bound to be about something else: the
// caller wins silently over the environment; Slurm's variables count only where nothing else is set, because everything
// within an allocation inherits them; and RANK and WORLD_SIZE win silently when tutti-run or torchrun has set them
// (TUTTI_JOB_ID, TORCHELASTIC_RUN_ID), because these may run within another launcher's process. kInvalidArgument lists
// all problems: the variable, its text in quotes with control characters escaped, the rule, and where it came from.
absl::StatusOr<Settings> ResolveSettings(const ProcessGroupOptions& options, const Environment& environment);

}  // namespace tutti

#endif  // TUTTI_SRC_RENDEZVOUS_ENVIRONMENT_H_
