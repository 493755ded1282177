// Hello: the first frame in each direction on every connection: who is calling, and for which job.
//
// Encoded as a bounded JSON object, so that versions can tell each other apart. `signature` is reserved for an HMAC of
// the rest.

#ifndef TUTTI_SRC_IDENTITY_HELLO_H_
#define TUTTI_SRC_IDENTITY_HELLO_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tutti {

// One process of a job, as it presents itself.
struct Identity {
  int protocol = 1;     // of the bytes that follow the hello
  std::string version;  // of the library
  std::string job_id;
  uint64_t generation = 0;  // of the membership; counts restarts
  int rank = 0;
  int world_size = 1;
  std::string hostname;
  std::string host_id;  // equal for ranks that share memory
  std::string boot_id;
  int64_t pid = 0;
  uint64_t configuration = 0;  // hash of the settings that all ranks must share
};

// "rank 2 (host-a, pid 4711)"
std::string Describe(const Identity& identity);

struct Hello {
  // "store", "membership", "data": what the connection is for.
  std::string purpose;
  Identity from;
  // Not empty in a reply that refuses: why. The sender closes after it.
  std::string refusal;
  // Of a refusal: what stands in the way is about to end, and the caller may come again.
  bool temporary = false;
  // What the purpose needs besides ("channel" of a data connection).
  int channel = 0;
  std::string signature;
};

inline constexpr size_t kHelloBytesMax = 4096;

// Texts are cut to 256 bytes (`refusal`: 1024), and the refusal further, to stay within kHelloBytesMax.
std::string Encode(const Hello& hello);
// kInvalidArgument for anything that is not a hello: bounds, types and ranges are checked before use. Unknown fields
// are passed over. Of a hello of another protocol nothing but the number needs to be there, so that CheckSameJob can
// tell.
absl::StatusOr<Hello> DecodeHello(absl::string_view payload);

// Whether `other` belongs to the same job as `self`: protocol, version, job, generation, world size, rank range and
// configuration agree. kFailedPrecondition for the first that does not, in this order; names both sides and both
// values.
absl::Status CheckSameJob(const Identity& self, const Identity& other);

}  // namespace tutti

#endif  // TUTTI_SRC_IDENTITY_HELLO_H_
