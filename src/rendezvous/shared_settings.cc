#include "src/rendezvous/shared_settings.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "src/base/status_macros.h"
#include "src/rendezvous/come_again.h"
#include "src/rendezvous/parse.h"

namespace tutti {
namespace {

using Json = nlohmann::json;

constexpr const char* kKey = "settings";
// Six bytes of JSON for one of text at worst.
constexpr size_t kEncodedBytesMax = 6 * kSelectionBytesMax + 256;

struct Shared {
  std::string selection;
  int sockets_per_peer = 0;
};

std::string Encode(const Settings& settings) {
  return Json({{"selection", settings.selection}, {"sockets_per_peer", settings.sockets_per_peer}}).dump();
}

absl::StatusOr<Shared> Decode(const std::string& text) {
  if (text.size() <= kEncodedBytesMax) {
    const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    const Json selection = json.is_object() ? json.value("selection", Json()) : Json();
    const Json sockets = json.is_object() ? json.value("sockets_per_peer", Json()) : Json();
    if (selection.is_string() && selection.get_ref<const std::string&>().size() <= kSelectionBytesMax &&
        sockets.is_number_unsigned() && sockets.get<uint64_t>() <= kSocketsMax) {
      return Shared{selection.get<std::string>(), static_cast<int>(sockets.get<uint64_t>())};
    }
  }
  return absl::InternalError("the settings of rank 0 in the store are no such settings: is this another job's store?");
}

std::string Text(const std::string& selection) { return selection.empty() ? "nothing" : Quoted(selection); }
std::string Text(int sockets) { return sockets == 0 ? "nothing" : absl::StrCat(sockets); }

template <typename T>
void Adopt(Settings& settings, absl::string_view name, absl::string_view variable, T& own, const T& of_rank_0,
           std::vector<std::string>& overruled) {
  if (own == of_rank_0) return;
  if (own != T()) {
    overruled.push_back(absl::StrCat(variable, " is ", Text(own), " on rank ", settings.rank, ", but ", Text(of_rank_0),
                                     " on rank 0, which is used: set it alike on all ranks"));
  }
  own = of_rank_0;
  const std::string begin = absl::StrCat(name, " = ");
  settings.origins.erase(std::remove_if(settings.origins.begin(), settings.origins.end(),
                                        [&](const std::string& origin) { return absl::StartsWith(origin, begin); }),
                         settings.origins.end());
  settings.origins.push_back(absl::StrCat(begin, Text(own), " (from rank 0)"));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ShareSettings(Store& store, Settings& settings, absl::Time deadline) {
  std::vector<std::string> overruled;
  if (settings.rank == 0) {
    TUTTI_RETURN_IF_ERROR(store.Set(kKey, Encode(settings)));
    return overruled;
  }
  const absl::StatusOr<std::string> published = store.Get(kKey, deadline);
  if (!published.ok()) {
    const std::string message = absl::StrCat("rank 0 has not told its settings to job \"", settings.job_id,
                                             "\": is it started? ", published.status().message());
    if (absl::IsUnavailable(published.status())) return ComeAgain(message);
    return absl::Status(published.status().code(), message);
  }
  TUTTI_ASSIGN_OR_RETURN(const Shared shared, Decode(*published));
  Adopt(settings, kSelectionSetting, "TUTTI_SELECTION", settings.selection, shared.selection, overruled);
  Adopt(settings, kSocketsSetting, "TUTTI_SOCKETS_PER_PEER", settings.sockets_per_peer, shared.sockets_per_peer,
        overruled);
  return overruled;
}

}  // namespace tutti
