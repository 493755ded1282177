// Who listens on a port that we wanted.

#ifndef TUTTI_SRC_RENDEZVOUS_PORT_HOLDER_H_
#define TUTTI_SRC_RENDEZVOUS_PORT_HOLDER_H_

#include <string>

#include "src/base/socket.h"
#include "src/identity/hello.h"

namespace tutti {

// Calls there with the hello of a store's client, for a second or two at most. "another rank 0 of this job, ..., owns
// port 29500", "port 29500 is in use by another program"; "" if nobody answers.
std::string DescribePortHolder(const SocketAddress& address, const Identity& self);

}  // namespace tutti

#endif  // TUTTI_SRC_RENDEZVOUS_PORT_HOLDER_H_
