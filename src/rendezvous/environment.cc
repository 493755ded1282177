#include "src/rendezvous/environment.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "src/rendezvous/parse.h"
#include "src/rendezvous/shared_settings.h"

namespace tutti {
namespace {

constexpr int kWorldSizeMax = 65536;
constexpr int kDescriptorMax = 1 << 20;
constexpr size_t kJobIdBytesMax = 128;
constexpr size_t kHostIdBytesMax = 128;
constexpr size_t kCongestionBytesMax = 15;  // TCP_CA_NAME_MAX of Linux, without its NUL

// In the order of precedence.
enum class Level : uint8_t {
  kCaller,
  kStandard,
  kLauncher,
  kAllocation,  // Slurm's, which every process within an allocation inherits, under any launcher
};

// One text for a setting, and whence.
struct Source {
  Level level;
  std::string name;
  std::string text;
  std::string place;  // "environment"

  std::string ToString() const { return absl::StrCat(name, "=", Quoted(text), " (", place, ")"); }
};

struct Variable {
  Level level;
  const char* name;
};

constexpr Variable kRank[] = {{Level::kStandard, "RANK"},
                              {Level::kLauncher, "OMPI_COMM_WORLD_RANK"},
                              {Level::kLauncher, "PMI_RANK"},
                              {Level::kLauncher, "PMIX_RANK"},
                              {Level::kAllocation, "SLURM_PROCID"}};
constexpr Variable kWorldSize[] = {{Level::kStandard, "WORLD_SIZE"},
                                   {Level::kLauncher, "OMPI_COMM_WORLD_SIZE"},
                                   {Level::kLauncher, "PMI_SIZE"},
                                   {Level::kAllocation, "SLURM_NTASKS"}};
constexpr Variable kLocalRank[] = {{Level::kStandard, "LOCAL_RANK"},
                                   {Level::kLauncher, "OMPI_COMM_WORLD_LOCAL_RANK"},
                                   {Level::kLauncher, "MPI_LOCALRANKID"},
                                   {Level::kAllocation, "SLURM_LOCALID"}};

// Its rules are the engine's business; its size and bytes are bounded here, because it travels to all ranks.
absl::StatusOr<std::string> ParseSelectionText(absl::string_view text) {
  if (text.size() <= kSelectionBytesMax && absl::c_all_of(text, absl::ascii_isascii)) return std::string(text);
  return absl::InvalidArgumentError(absl::StrCat("must be at most ", kSelectionBytesMax, " ASCII characters"));
}

// "node[03-07,9],other" names node03 first.
std::string FirstHost(absl::string_view list) {
  const absl::string_view head = list.substr(0, list.find_first_of(",["));
  if (head.size() == list.size() || list[head.size()] == ',') return std::string(head);
  const absl::string_view inside = list.substr(head.size() + 1);
  return absl::StrCat(head, inside.substr(0, inside.find_first_of(",-]")));
}

class Resolver {
 public:
  Resolver(const ProcessGroupOptions& options, const Environment& environment)
      : options_(options), environment_(environment) {}

  absl::StatusOr<Settings> Run() {
    ReadUrl();
    ReadRanks();
    ReadStoreFd();
    if (url_.scheme == Scheme::kFile) {
      settings_.scheme = Scheme::kFile;
      settings_.file_path = url_.path;
      Note("file", url_.path, "the URL");
    } else if (url_ok_) {
      ReadMaster();
    }
    ReadTimeout();
    ReadNetwork();
    ReadLabels();
    ReadTransfer();
    if (url_ok_ && !missing_.empty()) {  // a URL that cannot be read may have held them
      problems_.push_back(absl::StrCat("not set (environment): ", absl::StrJoin(missing_, ", "),
                                       ": set them, or start the program with tutti-run"));
    }
    if (problems_.empty()) return std::move(settings_);
    return absl::InvalidArgumentError(
        absl::StrCat("the settings of this process are wrong:\n  ", absl::StrJoin(problems_, "\n  ")));
  }

 private:
  void Problem(const Source& source, const absl::Status& rule) {
    problems_.push_back(absl::StrCat(source.ToString(), ": ", rule.message()));
  }

  void Note(absl::string_view setting, absl::string_view value, absl::string_view source) {
    settings_.origins.push_back(absl::StrCat(setting, " = ", value, " (from ", source, ")"));
  }

  template <typename T>
  std::optional<T> Take(const Source& source, absl::StatusOr<T> parsed) {
    if (parsed.ok()) return *std::move(parsed);
    Problem(source, parsed.status());
    return std::nullopt;
  }

  std::optional<Source> FromVariable(Level level, const char* name) const {
    std::optional<std::string> text = environment_.Get(name);
    if (!text.has_value()) return std::nullopt;
    return Source{level, name, *std::move(text), "environment"};
  }

  // The first of the variables that is not empty: for texts, empty is as good as unset.
  std::optional<Source> FirstText(absl::string_view option, const char* field,
                                  std::initializer_list<const char*> names) const {
    if (!option.empty()) return Source{Level::kCaller, field, std::string(option), "option"};
    for (const char* name : names) {
      std::optional<Source> source = FromVariable(Level::kStandard, name);
      if (source.has_value() && !source->text.empty()) return source;
    }
    return std::nullopt;
  }

  void ReadUrl() {
    absl::StatusOr<InitUrl> url = ParseInitUrl(options_.init_method);
    url_ok_ = url.ok();
    if (url.ok()) {
      url_ = *std::move(url);
    } else {
      Problem({Level::kCaller, "init_method", options_.init_method, "option"}, url.status());
    }
  }

  std::vector<Source> Sources(int option, const char* field, const std::optional<std::string>& parameter,
                              absl::Span<const Variable> variables) const {
    std::vector<Source> sources;
    if (option != -1) sources.push_back({Level::kCaller, field, absl::StrCat(option), "option"});
    if (parameter.has_value()) {
      sources.push_back({Level::kCaller, field, *parameter, absl::StrCat("URL ", Quoted(options_.init_method))});
    }
    for (const Variable& variable : variables) {
      if (std::optional<Source> source = FromVariable(variable.level, variable.name)) sources.push_back(*source);
    }
    return sources;
  }

  // Whether `lower` still has a say when `higher` has given a value.
  bool MustAgree(const Source& higher, const Source& lower) const {
    if (higher.level == Level::kCaller) return lower.level == Level::kCaller;
    if (lower.level == Level::kAllocation) return false;
    return lower.level == higher.level || !inner_launcher_;
  }

  std::optional<int> Number(absl::string_view setting, absl::string_view what, const std::vector<Source>& sources,
                            int least, int most) {
    const Source* chosen = nullptr;
    std::optional<int64_t> value;
    for (const Source& source : sources) {
      if (chosen != nullptr && !MustAgree(*chosen, source)) continue;
      const std::optional<int64_t> next = Take(source, ParseDecimal(source.text, what, least, most));
      if (chosen == nullptr) {
        chosen = &source;
        value = next;
      } else if (value.has_value() && next.has_value() && *value != *next) {
        problems_.push_back(absl::StrCat(chosen->ToString(), " and ", source.ToString(), " disagree about the ",
                                         setting, ": unset the one that is wrong"));
      }
    }
    if (!value.has_value()) return std::nullopt;
    Note(setting, absl::StrCat(*value), chosen->level == Level::kCaller ? "the caller" : chosen->name);
    return static_cast<int>(*value);
  }

  void ReadRanks() {
    const std::vector<Source> ranks = Sources(options_.rank, "rank", url_.rank, kRank);
    const std::vector<Source> sizes = Sources(options_.world_size, "world_size", url_.world_size, kWorldSize);
    if (ranks.empty()) missing_.push_back("RANK");
    if (sizes.empty()) missing_.push_back("WORLD_SIZE");
    const std::optional<int> rank = Number("rank", "a rank", ranks, 0, kWorldSizeMax - 1);
    const std::optional<int> size = Number("world size", "a world size", sizes, 1, kWorldSizeMax);
    for (const Variable& variable : kLocalRank) {  // for the program's use, not ours; rubbish is rubbish all the same
      if (std::optional<Source> source = FromVariable(variable.level, variable.name)) {
        Take(*source, ParseDecimal(source->text, "a local rank", 0, kWorldSizeMax - 1));
      }
    }
    if (rank.has_value() && size.has_value() && *rank >= *size) {
      problems_.push_back(absl::StrCat(ranks[0].ToString(), " does not fit ", sizes[0].ToString(),
                                       ": the rule is 0 <= rank < world_size; ranks count from 0"));
    }
    settings_.rank = rank.value_or(0);
    settings_.world_size = size.value_or(0);
  }

  void ReadStoreFd() {
    const std::optional<Source> source = FromVariable(Level::kStandard, "TUTTI_STORE_FD");
    if (!source.has_value()) return;
    if (auto fd = Take(*source, ParseDecimal(source->text, "a file descriptor", 0, kDescriptorMax))) {
      settings_.store_fd = static_cast<int>(*fd);
      Note("store descriptor", source->text, source->name);
    }
  }

  void ReadMaster() {
    std::optional<Source> host, port;
    if (!url_.from_environment) {
      const std::string place = absl::StrCat("URL ", Quoted(options_.init_method));
      host = Source{Level::kCaller, "host", url_.host, place};
      port = Source{Level::kCaller, "port", url_.port, place};
    } else {
      host = FromVariable(Level::kStandard, "MASTER_ADDR");
      port = FromVariable(Level::kStandard, "MASTER_PORT");
      if (!host.has_value()) {
        if ((host = FromVariable(Level::kAllocation, "SLURM_NODELIST"))) host->text = FirstHost(host->text);
      }
    }
    const bool alone = settings_.world_size == 1;
    if (host.has_value()) {
      if (auto name = Take(*host, ParseHost(host->text))) {
        settings_.master_host = *name;
        Note("master host", *name, host->level == Level::kCaller ? "the URL" : host->name);
      }
    } else if (alone) {
      settings_.master_host = "127.0.0.1";
    } else {
      missing_.push_back("MASTER_ADDR");
    }
    if (port.has_value()) {
      const bool may_be_zero = alone || (settings_.rank == 0 && settings_.store_fd >= 0);
      if (auto number = Take(*port, ParseDecimal(port->text, "a port", may_be_zero ? 0 : 1, 65535))) {
        settings_.master_port = static_cast<uint16_t>(*number);
        Note("master port", absl::StrCat(*number), port->level == Level::kCaller ? "the URL" : port->name);
      }
    } else if (!alone) {
      missing_.push_back("MASTER_PORT");
    }
  }

  void ReadTimeout() {
    if (options_.timeout != absl::ZeroDuration()) {
      const absl::Status checked = CheckTimeout(options_.timeout);
      if (!checked.ok()) {
        Problem({Level::kCaller, "timeout", absl::FormatDuration(options_.timeout), "option"}, checked);
      }
      settings_.timeout = options_.timeout;
      Note("timeout", absl::FormatDuration(settings_.timeout), "the caller");
    } else if (const std::optional<Source> source = FromVariable(Level::kStandard, "TUTTI_TIMEOUT")) {
      if (auto timeout = Take(*source, ParseTimeout(source->text))) settings_.timeout = *timeout;
      Note("timeout", absl::FormatDuration(settings_.timeout), source->name);
    }
    if (const std::optional<Source> source = FromVariable(Level::kStandard, "TUTTI_STRAGGLER_WARNING")) {
      if (auto patience = Take(*source, ParseTimeout(source->text))) settings_.straggler_warning = *patience;
      Note("straggler warning", absl::FormatDuration(settings_.straggler_warning), source->name);
    }
  }

  void ReadNetwork() {
    if (auto source = FirstText(options_.socket_interface, "socket_interface",
                                {"TUTTI_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"})) {
      settings_.socket_interface = source->text;
      Note("socket interface", Quoted(source->text), source->name);
    }
    std::optional<Source> range = FromVariable(Level::kStandard, "TUTTI_PORT_RANGE");
    if (!options_.port_range.empty()) range = Source{Level::kCaller, "port_range", options_.port_range, "option"};
    if (range.has_value()) {
      if (auto ports = Take(*range, ParsePortRange(range->text))) settings_.ports = *ports;
      Note("port range", Quoted(range->text), range->name);
    }
  }

  void ReadLabels() {
    if (auto source = FirstText(options_.job_id, "job_id", {"TUTTI_JOB_ID", "TORCHELASTIC_RUN_ID"})) {
      if (auto id = Take(*source, ParseLabel(source->text, kJobIdBytesMax))) settings_.job_id = *id;
      Note("job id", Quoted(source->text), source->name);
    }
    if (auto source = FirstText("", "", {"TUTTI_HOST_ID", "NCCL_HOSTID"})) {
      if (auto id = Take(*source, ParseLabel(source->text, kHostIdBytesMax))) settings_.host_id = *id;
      Note("host id", Quoted(source->text), source->name);
    }
    if (auto source = FirstText("", "", {"TUTTI_TCP_CONGESTION"})) {
      if (auto name = Take(*source, ParseLabel(source->text, kCongestionBytesMax))) settings_.tcp_congestion = *name;
      Note("tcp congestion control", Quoted(source->text), source->name);
    }
    if (auto source = FirstText("", "", {"TUTTI_LOG"})) {
      constexpr std::array<absl::string_view, 5> kLevels = {"debug", "info", "warning", "error", "off"};
      if (std::find(kLevels.begin(), kLevels.end(), source->text) == kLevels.end()) {
        Problem(*source, absl::InvalidArgumentError("must be debug, info, warning, error or off"));
      }
      settings_.log_level = source->text;
      Note("log level", Quoted(source->text), source->name);
    }
  }

  void ReadTransfer() {
    if (auto source = FirstText(options_.selection, "selection", {"TUTTI_SELECTION"})) {
      if (auto text = Take(*source, ParseSelectionText(source->text))) settings_.selection = *text;
      Note(kSelectionSetting, Quoted(source->text), source->name);
    }
    if (auto source = FirstText("", "", {"TUTTI_SHARED_MEMORY"})) {
      if (source->text != "on" && source->text != "off")
        Problem(*source, absl::InvalidArgumentError("must be on or off"));
      settings_.shared_memory = source->text != "off";
      Note("shared memory", source->text, source->name);
    }
    if (auto source = FirstText("", "", {"TUTTI_SOCKETS_PER_PEER"})) {
      if (auto count = Take(*source, ParseDecimal(source->text, "a number of sockets", 1, kSocketsMax))) {
        settings_.sockets_per_peer = static_cast<int>(*count);
      }
      Note(kSocketsSetting, source->text, source->name);
    }
  }

  const ProcessGroupOptions& options_;
  const Environment& environment_;
  // tutti-run and torchrun set RANK and WORLD_SIZE themselves, perhaps within another launcher's process.
  const bool inner_launcher_ =
      environment_.Get("TUTTI_JOB_ID").has_value() || environment_.Get("TORCHELASTIC_RUN_ID").has_value();
  InitUrl url_;
  bool url_ok_ = false;
  Settings settings_;
  std::vector<std::string> missing_;
  std::vector<std::string> problems_;
};

}  // namespace

Environment Environment::OfProcess() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const absl::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == text.npos) continue;
    variables.emplace(std::string(text.substr(0, equals)), std::string(text.substr(equals + 1)));
  }
  return Environment(std::move(variables));
}

std::optional<std::string> Environment::Get(absl::string_view name) const {
  const auto found = variables_.find(std::string(name));
  if (found == variables_.end()) return std::nullopt;
  return found->second;
}

absl::StatusOr<Settings> ResolveSettings(const ProcessGroupOptions& options, const Environment& environment) {
  return Resolver(options, environment).Run();
}

}  // namespace tutti
