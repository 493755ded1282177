#include "tools/tutti_run/arguments.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "src/base/status_macros.h"
#include "tutti/version.h"

namespace tutti::launch {
namespace {

constexpr char kManual[] = R"(Starts the ranks of a Tutti job on this host, and ends them together.

Each rank gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, TUTTI_JOB_ID, and
OMP_NUM_THREADS = usable cpus / local ranks unless it is set already. Variables of other launchers that would say
something else (OMPI_COMM_WORLD_*, PMI_*, PMIX_*, SLURM_PROCID, SLURM_LOCALID, SLURM_NTASKS) are removed. The port is
bound here and its socket is handed to rank 0, so that no other program can take it in between. Standard input of the
ranks is empty.

Every line that a rank prints gets its rank in front: "[3] ...". Lines above 64 KiB are cut.

When a rank fails, the others have 2 seconds to end by themselves, since they usually know more about it; then they
get SIGTERM, and SIGKILL after the grace time. SIGINT, SIGTERM and SIGHUP (unless ignored, as under nohup) reach the
ranks as SIGTERM; a second SIGINT kills them at once. Whatever a rank started ends with the job, unless it left the
rank's process group. If tutti-run itself is killed, the ranks are too.

Exit status: 0 if all ranks succeed; the status of the rank that failed first, 128 + N if that was signal N; 128 + N
if tutti-run was ended by signal N; 127 if the program is not found, 126 if it cannot be executed, 2 for wrong
arguments.)";

class HelpFormat : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override {
    return "\nUsage: tutti-run -n N [options] program [arguments]\n";
  }
};

// What the user wrote, before it is judged.
struct Texts {
  std::string ranks, nodes = "1", node_rank, master_addr, master_port, job_id, grace = "5";
};

std::string Quote(absl::string_view text) { return absl::StrCat("\"", absl::CHexEscape(text), "\""); }

// Decimal digits only: no sign, blank or 0x, and never octal.
absl::StatusOr<int> ParseInteger(absl::string_view option, absl::string_view text, int least, int most) {
  int value = 0;
  if (text.empty() || !std::all_of(text.begin(), text.end(), absl::ascii_isdigit) || !absl::SimpleAtoi(text, &value) ||
      value < least || value > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(option, " ", Quote(text), ": expected a whole number from ", least, " to ", most));
  }
  return value;
}

absl::StatusOr<absl::Duration> ParseGrace(absl::string_view text) {
  double seconds = 0;
  if (!absl::SimpleAtod(text, &seconds) || !(seconds >= 0 && seconds <= 86400)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--grace ", Quote(text), ": expected a number of seconds from 0 to 86400"));
  }
  return absl::Seconds(seconds);
}

absl::StatusOr<std::string> RandomJobId() {
  std::array<char, 16> bytes;
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return absl::ErrnoToStatus(errno, "no random job id");
  }
  return absl::BytesToHexString(absl::string_view(bytes.data(), bytes.size()));
}

absl::Status ParseNodes(const Texts& texts, Arguments& arguments) {
  TUTTI_ASSIGN_OR_RETURN(arguments.nodes, ParseInteger("--nnodes", texts.nodes, 1, kMaxNodes));
  if (arguments.nodes > 1) {
    for (const auto& [option, text] : {std::pair<const char*, const std::string&>("--node-rank", texts.node_rank),
                                       {"--master-addr", texts.master_addr},
                                       {"--master-port", texts.master_port}}) {
      if (text.empty()) return absl::InvalidArgumentError(absl::StrCat(option, " is missing: --nnodes > 1 needs it"));
    }
  }
  if (!texts.node_rank.empty()) {
    TUTTI_ASSIGN_OR_RETURN(arguments.node_rank, ParseInteger("--node-rank", texts.node_rank, 0, arguments.nodes - 1));
  }
  if (!texts.master_addr.empty()) arguments.master_host = texts.master_addr;
  if (!texts.master_port.empty()) {
    TUTTI_ASSIGN_OR_RETURN(const int port,
                           ParseInteger("--master-port", texts.master_port, arguments.nodes > 1 ? 1 : 0, 65535));
    arguments.master_port = static_cast<uint16_t>(port);
  }
  return absl::OkStatus();
}

absl::Status ParseProgram(std::vector<std::string> rest, Arguments& arguments) {
  const bool separated = !rest.empty() && rest.front() == "--";
  if (separated) rest.erase(rest.begin());
  if (rest.empty() || rest.front().empty()) {
    return absl::InvalidArgumentError("no program: expected tutti-run -n N [options] program [arguments]");
  }
  if (!separated && rest.front().front() == '-') {
    return absl::InvalidArgumentError(absl::StrCat("unknown option ", Quote(rest.front())));
  }
  arguments.program = std::move(rest);
  return absl::OkStatus();
}

absl::StatusOr<Arguments> Interpret(const Texts& texts, std::vector<std::string> rest) {
  Arguments arguments;
  TUTTI_ASSIGN_OR_RETURN(arguments.local_ranks, ParseInteger("-n", texts.ranks, 1, kMaxLocalRanks));
  TUTTI_RETURN_IF_ERROR(ParseNodes(texts, arguments));
  TUTTI_ASSIGN_OR_RETURN(arguments.grace, ParseGrace(texts.grace));
  TUTTI_RETURN_IF_ERROR(ParseProgram(std::move(rest), arguments));
  if (!texts.job_id.empty()) {
    arguments.job_id = texts.job_id;
  } else if (arguments.nodes > 1) {
    arguments.job_id = absl::StrCat(arguments.master_host, ":", arguments.master_port);
  } else {
    TUTTI_ASSIGN_OR_RETURN(arguments.job_id, RandomJobId());
  }
  return arguments;
}

Arguments Answer(std::string text) {
  Arguments arguments;
  arguments.answer = std::move(text);
  return arguments;
}

}  // namespace

absl::StatusOr<Arguments> ParseArguments(int argc, const char* const* argv) {
  CLI::App app(kManual, "tutti-run");
  app.formatter(std::make_shared<HelpFormat>());
  app.prefix_command();  // everything from the program on is its own
  app.set_version_flag("--version", "tutti-run " TUTTI_VERSION);
  Texts texts;
  const auto option = [&](const char* name, std::string& text, const char* type, const char* meaning) {
    return app.add_option(name, text, meaning)->type_name(type);
  };
  option("-n", texts.ranks, "N", "Ranks on this node")->required();
  option("--nnodes", texts.nodes, "K", "Nodes of the job, each with N ranks; tutti-run is started on each of them");
  option("--node-rank", texts.node_rank, "R", "This node, 0 to K - 1; node 0 is the master");
  option("--master-addr", texts.master_addr, "HOST",
         "Name or address of node 0 that all nodes reach; with one node 127.0.0.1");
  option("--master-port", texts.master_port, "PORT", "Its port; with one node any free one");
  option("--job-id", texts.job_id, "ID", "Ranks of another job are refused; the same on all nodes");
  option("--grace", texts.grace, "SECONDS", "From SIGTERM to SIGKILL; 5");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForVersion& version) {
    return Answer(absl::StrCat(version.what(), "\n"));
  } catch (const CLI::CallForHelp&) {
    return Answer(app.help());
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(error.what());
  }
  return Interpret(texts, app.remaining());
}

}  // namespace tutti::launch
