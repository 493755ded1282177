#include "src/identity/hello.h"

#include <limits>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "src/base/status_macros.h"

namespace tutti {
namespace {

using Json = nlohmann::json;

constexpr size_t kTextBytesMax = 256;
constexpr size_t kRefusalBytesMax = 1024;
constexpr int64_t kRankLimit = int64_t{1} << 20;

// At most `bytes` bytes, without half a UTF-8 sequence at the end.
std::string Cut(const std::string& text, size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) --bytes;
  return text.substr(0, bytes);
}

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// Reads the fields of an object; the first problem sticks.
class Reader {
 public:
  explicit Reader(const Json& object) : object_(object) {}

  // Fields that are read from here on may be missing.
  void AllowMissing() { required_ = false; }

  void Text(const char* name, std::string& out, size_t bytes_max = kTextBytesMax) {
    const Json* field = Find(name);
    if (field == nullptr) return;
    if (!field->is_string()) return Fail(name, "is no string");
    const std::string& text = field->get_ref<const std::string&>();
    if (text.size() > bytes_max) return Fail(name, absl::StrCat("has more than ", bytes_max, " bytes"));
    out = text;
  }

  void Unsigned(const char* name, uint64_t& out) {
    const Json* field = Find(name);
    if (field == nullptr) return;
    if (!field->is_number_unsigned()) return Fail(name, "is no integer from 0 to 2^64-1");
    out = field->get<uint64_t>();
  }

  template <typename Integer>
  void Bounded(const char* name, Integer& out, int64_t first, int64_t last) {
    const Json* field = Find(name);
    if (field == nullptr) return;
    // A number is "unsigned" to the parser exactly if it is an integer and not negative.
    if (!field->is_number_unsigned() || field->get<uint64_t>() < static_cast<uint64_t>(first) ||
        field->get<uint64_t>() > static_cast<uint64_t>(last)) {
      return Fail(name, absl::StrCat("is no integer from ", first, " to ", last));
    }
    out = static_cast<Integer>(field->get<uint64_t>());
  }

  const absl::Status& status() const { return status_; }

 private:
  const Json* Find(const char* name) {
    auto found = object_.find(name);
    if (found != object_.end()) return &*found;
    if (required_) Fail(name, "is missing");
    return nullptr;
  }

  void Fail(const char* name, absl::string_view problem) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(absl::StrCat("not a hello: ", name, " ", problem));
  }

  const Json& object_;
  bool required_ = true;
  absl::Status status_;
};

std::string Quoted(absl::string_view text) { return absl::StrCat("\"", absl::Utf8SafeCHexEscape(text), "\""); }

absl::Status Differ(absl::string_view what, const Identity& self, absl::string_view own, const Identity& other,
                    absl::string_view theirs, absl::string_view advice) {
  return absl::FailedPreconditionError(absl::StrCat("the ", what, " differs: ", Describe(self), " has ", own, ", ",
                                                    Describe(other), " has ", theirs, "; ", advice));
}

}  // namespace

std::string Describe(const Identity& identity) {
  return absl::StrCat("rank ", identity.rank, " (", absl::Utf8SafeCHexEscape(identity.hostname), ", pid ", identity.pid,
                      ")");
}

std::string Encode(const Hello& hello) {
  const Identity& from = hello.from;
  Json json = {{"purpose", Cut(hello.purpose, kTextBytesMax)},
               {"protocol", from.protocol},
               {"version", Cut(from.version, kTextBytesMax)},
               {"job_id", Cut(from.job_id, kTextBytesMax)},
               {"generation", from.generation},
               {"rank", from.rank},
               {"world_size", from.world_size},
               {"hostname", Cut(from.hostname, kTextBytesMax)},
               {"host_id", Cut(from.host_id, kTextBytesMax)},
               {"boot_id", Cut(from.boot_id, kTextBytesMax)},
               {"pid", from.pid},
               {"configuration", from.configuration},
               {"channel", hello.channel}};
  if (!hello.signature.empty()) json["signature"] = Cut(hello.signature, kTextBytesMax);
  if (hello.refusal.empty()) return Dump(json);
  std::string text;
  // Escapes can make a text longer than its bytes.
  for (size_t bytes = kRefusalBytesMax; bytes >= 64; bytes /= 2) {
    json["temporary"] = hello.temporary ? 1 : 0;
    json["refusal"] = Cut(hello.refusal, bytes);
    text = Dump(json);
    if (text.size() <= kHelloBytesMax) break;
  }
  return text;
}

absl::StatusOr<Hello> DecodeHello(absl::string_view payload) {
  if (payload.size() > kHelloBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("not a hello: ", payload.size(), " bytes, more than ", kHelloBytesMax));
  }
  const Json json = Json::parse(payload.begin(), payload.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InvalidArgumentError("not a hello: no JSON object");

  Hello hello;
  Identity& from = hello.from;
  Reader reader(json);
  reader.Bounded("protocol", from.protocol, 1, kRankLimit);
  // A later protocol may have dropped fields: it is refused for its number, not for what it lacks.
  if (from.protocol != Identity().protocol) reader.AllowMissing();
  reader.Text("purpose", hello.purpose);
  reader.Text("version", from.version);
  reader.Text("job_id", from.job_id);
  reader.Unsigned("generation", from.generation);
  reader.Bounded("rank", from.rank, 0, kRankLimit);
  reader.Bounded("world_size", from.world_size, 1, kRankLimit);
  reader.Text("hostname", from.hostname);
  reader.Text("host_id", from.host_id);
  reader.Text("boot_id", from.boot_id);
  reader.Bounded("pid", from.pid, 0, std::numeric_limits<int32_t>::max());
  reader.Unsigned("configuration", from.configuration);
  reader.AllowMissing();
  reader.Text("refusal", hello.refusal, kRefusalBytesMax);
  reader.Bounded("temporary", hello.temporary, 0, 1);
  reader.Bounded("channel", hello.channel, 0, kRankLimit);
  reader.Text("signature", hello.signature);
  TUTTI_RETURN_IF_ERROR(reader.status());
  return hello;
}

absl::Status CheckSameJob(const Identity& self, const Identity& other) {
  if (self.protocol != other.protocol) {
    return Differ("protocol", self, absl::StrCat(self.protocol, " (library ", Quoted(self.version), ")"), other,
                  absl::StrCat(other.protocol, " (library ", Quoted(other.version), ")"),
                  "link all ranks to the same build of Tutti");
  }
  if (self.version != other.version) {
    return Differ("library version", self, Quoted(self.version), other, Quoted(other.version),
                  "link all ranks to the same build of Tutti");
  }
  if (self.job_id != other.job_id) {
    return Differ("job", self, Quoted(self.job_id), other, Quoted(other.job_id),
                  "give each job a master address and port, or a file, of its own");
  }
  if (self.generation != other.generation) {
    return Differ("generation", self, absl::StrCat(self.generation), other, absl::StrCat(other.generation),
                  "one of them is left over from before a restart: end it");
  }
  if (self.world_size != other.world_size) {
    return Differ("world size", self, absl::StrCat(self.world_size), other, absl::StrCat(other.world_size),
                  "start all ranks with the same number");
  }
  if (other.rank < 0 || other.rank >= self.world_size) {
    return absl::FailedPreconditionError(absl::StrCat(Describe(other), " is out of range: ", Describe(self),
                                                      " has world size ", self.world_size, ", and ranks from 0 to ",
                                                      self.world_size - 1));
  }
  if (self.configuration != other.configuration) {
    return Differ("configuration", self, absl::StrCat("hash ", absl::Hex(self.configuration, absl::kZeroPad16)), other,
                  absl::StrCat("hash ", absl::Hex(other.configuration, absl::kZeroPad16)),
                  "give all ranks the same options and TUTTI_ variables");
  }
  return absl::OkStatus();
}

}  // namespace tutti
