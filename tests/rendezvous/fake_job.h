// Ranks of a made-up job within one process, for tests of the membership.

#ifndef TUTTI_TESTS_RENDEZVOUS_FAKE_JOB_H_
#define TUTTI_TESTS_RENDEZVOUS_FAKE_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/identity/hello.h"
#include "src/rendezvous/membership.h"

namespace tutti {

inline Identity FakeIdentity(int rank, int world_size) {
  Identity identity;
  identity.version = "test";
  identity.job_id = "job";
  identity.rank = rank;
  identity.world_size = world_size;
  identity.hostname = absl::StrCat("host-", rank);
  identity.host_id = absl::StrCat("id-", rank);
  identity.boot_id = "boot";
  identity.pid = 100 + rank;
  return identity;
}

inline std::vector<Member> FakeMembers(int world_size) {
  std::vector<Member> members;
  for (int rank = 0; rank < world_size; ++rank) {
    members.push_back({.identity = FakeIdentity(rank, world_size), .data_address = absl::StrCat("10.0.0.1:", rank)});
  }
  return members;
}

}  // namespace tutti

#endif  // TUTTI_TESTS_RENDEZVOUS_FAKE_JOB_H_
