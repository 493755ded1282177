#include "src/rendezvous/membership_messages.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "src/base/status_macros.h"

namespace tutti {
namespace {

using Json = nlohmann::json;
using Message = MembershipMessage;

// Six bytes of JSON a byte at worst.
constexpr size_t kTextBytesMax = 4096;
constexpr size_t kNameBytesMax = 256;
constexpr size_t kMemberFields = 7;

constexpr const char* kTypeNames[Message::kTypes] = {"join",    "welcome", "notice",    "heartbeat",
                                                     "query",   "answer",  "peer-lost", "mismatch",
                                                     "timeout", "abort",   "verdict",   "leave"};

absl::Status Bad(absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat("not a membership message: ", problem));
}

std::string Cut(const std::string& text) {
  if (text.size() <= kTextBytesMax) return text;
  return absl::StrCat(text.substr(0, kTextBytesMax - 3), "...");
}

Json ToJson(const OperationNote& note) {
  return {{"sequence", note.sequence},
          {"text", note.text},
          {"details", note.details},
          {"fingerprint", note.fingerprint},
          {"done", note.done}};
}

// Readers of optional fields: nothing is changed if the field is missing.
absl::Status Read(const Json& object, const char* name, size_t bytes_max, std::string& out) {
  const auto found = object.find(name);
  if (found == object.end()) return absl::OkStatus();
  if (!found->is_string() || found->get_ref<const std::string&>().size() > bytes_max) {
    return Bad(absl::StrCat(name, " is no string of at most ", bytes_max, " bytes"));
  }
  out = found->get<std::string>();
  return absl::OkStatus();
}

template <typename T>
absl::Status Read(const Json& object, const char* name, uint64_t most, T& out) {
  const auto found = object.find(name);
  if (found == object.end()) return absl::OkStatus();
  if (!found->is_number_unsigned() || found->get<uint64_t>() > most) {
    return Bad(absl::StrCat(name, " is no integer from 0 to ", most));
  }
  out = static_cast<T>(found->get<uint64_t>());
  return absl::OkStatus();
}

absl::Status Read(const Json& object, const char* name, CpuSet& out) {
  std::string list;
  TUTTI_RETURN_IF_ERROR(Read(object, name, kNameBytesMax, list));
  absl::StatusOr<CpuSet> cpus = ParseCpuList(list);
  if (!cpus.ok()) return Bad(absl::StrCat(name, ": ", cpus.status().message()));
  out = *cpus;
  return absl::OkStatus();
}

absl::Status Read(const Json& object, const char* name, std::optional<OperationNote>& out) {
  const auto found = object.find(name);
  if (found == object.end()) return absl::OkStatus();
  if (!found->is_object()) return Bad(absl::StrCat(name, " is no object"));
  OperationNote note;
  TUTTI_RETURN_IF_ERROR(Read(*found, "sequence", std::numeric_limits<uint32_t>::max(), note.sequence));
  TUTTI_RETURN_IF_ERROR(Read(*found, "text", kNameBytesMax, note.text));
  TUTTI_RETURN_IF_ERROR(Read(*found, "details", kNameBytesMax, note.details));
  TUTTI_RETURN_IF_ERROR(Read(*found, "fingerprint", std::numeric_limits<uint64_t>::max(), note.fingerprint));
  note.done = found->value("done", Json()) == Json(true);
  out = std::move(note);
  return absl::OkStatus();
}

absl::Status ReadRecent(const Json& object, std::vector<HistoryPoint>& out) {
  const auto found = object.find("recent");
  if (found == object.end()) return absl::OkStatus();
  if (!found->is_array() || found->size() > kHistoryPointsMax) return Bad("recent is no short array");
  for (const Json& pair : *found) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_unsigned() || !pair[1].is_number_unsigned() ||
        pair[0].get<uint64_t>() > std::numeric_limits<uint32_t>::max()) {
      return Bad("recent holds something else than pairs of numbers");
    }
    out.push_back({pair[0].get<uint32_t>(), pair[1].get<uint64_t>()});
  }
  return absl::OkStatus();
}

absl::Status ReadMembers(const Json& object, const Identity& self, std::vector<Member>& out) {
  const auto found = object.find("members");
  if (found == object.end()) return absl::OkStatus();
  if (!found->is_array() || found->size() != static_cast<size_t>(self.world_size)) {
    return Bad("members is no array of one entry a rank");
  }
  for (const Json& entry : *found) {
    if (!entry.is_array() || entry.size() != kMemberFields || !entry[6].is_number_unsigned()) {
      return Bad("a member is no array of seven fields");
    }
    std::string fields[kMemberFields - 1];
    for (size_t i = 0; i + 1 < kMemberFields; ++i) {
      if (!entry[i].is_string() || entry[i].get_ref<const std::string&>().size() > kNameBytesMax) {
        return Bad("a member's field is no short string");
      }
      fields[i] = entry[i].get<std::string>();
    }
    const absl::StatusOr<CpuSet> cpus = ParseCpuList(fields[5]);
    if (!cpus.ok()) return Bad(absl::StrCat("a member's processors: ", cpus.status().message()));
    Member member{.identity = self, .data_address = fields[3], .local_address = fields[4], .cpus = *cpus};
    member.identity.rank = static_cast<int>(out.size());
    member.identity.hostname = fields[0];
    member.identity.host_id = fields[1];
    member.identity.boot_id = fields[2];
    member.identity.pid = entry[6].get<int64_t>();
    out.push_back(std::move(member));
  }
  return absl::OkStatus();
}

absl::StatusOr<Message::Type> ReadType(const Json& object) {
  std::string name;
  TUTTI_RETURN_IF_ERROR(Read(object, "type", kNameBytesMax, name));
  for (int i = 0; i < Message::kTypes; ++i) {
    if (name == kTypeNames[i]) return static_cast<Message::Type>(i);
  }
  return Bad("unknown type");
}

}  // namespace

size_t WelcomeBytesMax(int world_size) {
  return kMembershipMessageBytesMax + static_cast<size_t>(world_size) * kMemberFields * kNameBytesMax;
}

std::string EncodeMembershipHello(const Identity& self, std::string refusal, bool temporary) {
  Hello hello;
  hello.purpose = "membership";
  hello.from = self;
  hello.refusal = std::move(refusal);
  hello.temporary = temporary;
  return Encode(hello);
}

std::string Encode(const Message& message) {
  Json json = {{"type", kTypeNames[static_cast<int>(message.type)]}};
  if (!message.text.empty()) json["text"] = Cut(message.text);
  if (!message.local_address.empty()) json["local_address"] = Cut(message.local_address);
  if (message.cpus.any()) json["cpus"] = CpuList(message.cpus, kNameBytesMax);
  if (message.timeout > absl::ZeroDuration()) json["timeout_ms"] = absl::ToInt64Milliseconds(message.timeout);
  if (message.peer != 0) json["peer"] = message.peer;
  if (message.code != absl::StatusCode::kOk) json["code"] = static_cast<int>(message.code);
  if (message.sequence != 0) json["sequence"] = message.sequence;
  if (message.operation.has_value()) json["operation"] = ToJson(*message.operation);
  if (message.latest.has_value()) json["latest"] = ToJson(*message.latest);
  for (const HistoryPoint& point : message.recent) json["recent"].push_back({point.sequence, point.history});
  for (const Member& member : message.members) {
    const Identity& identity = member.identity;
    json["members"].push_back({identity.hostname, identity.host_id, identity.boot_id, member.data_address,
                               member.local_address, CpuList(member.cpus, kNameBytesMax), identity.pid});
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<Message> DecodeMembershipMessage(absl::string_view payload, const Identity& self) {
  const Json json = Json::parse(payload.begin(), payload.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Bad("no JSON object");
  Message message;
  TUTTI_ASSIGN_OR_RETURN(message.type, ReadType(json));
  TUTTI_RETURN_IF_ERROR(Read(json, "text", kMembershipMessageBytesMax, message.text));
  TUTTI_RETURN_IF_ERROR(Read(json, "local_address", kNameBytesMax, message.local_address));
  TUTTI_RETURN_IF_ERROR(Read(json, "cpus", message.cpus));
  int64_t timeout_ms = 0;
  TUTTI_RETURN_IF_ERROR(Read(json, "timeout_ms", absl::ToInt64Milliseconds(absl::Hours(24 * 366)), timeout_ms));
  message.timeout = absl::Milliseconds(timeout_ms);
  TUTTI_RETURN_IF_ERROR(Read(json, "peer", static_cast<uint64_t>(self.world_size) - 1, message.peer));
  TUTTI_RETURN_IF_ERROR(Read(json, "code", static_cast<uint64_t>(absl::StatusCode::kUnauthenticated), message.code));
  TUTTI_RETURN_IF_ERROR(Read(json, "sequence", std::numeric_limits<uint32_t>::max(), message.sequence));
  TUTTI_RETURN_IF_ERROR(Read(json, "operation", message.operation));
  TUTTI_RETURN_IF_ERROR(Read(json, "latest", message.latest));
  TUTTI_RETURN_IF_ERROR(ReadRecent(json, message.recent));
  TUTTI_RETURN_IF_ERROR(ReadMembers(json, self, message.members));
  return message;
}

}  // namespace tutti
