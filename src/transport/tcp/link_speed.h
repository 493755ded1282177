// LinkSpeed: how fast the interface behind an address says it is.

#ifndef TUTTI_SRC_TRANSPORT_TCP_LINK_SPEED_H_
#define TUTTI_SRC_TRANSPORT_TCP_LINK_SPEED_H_

#include "src/base/socket.h"

namespace tutti {

// In Gbit/s; 0 if it does not say.
int LinkSpeed(const SocketAddress& address);

}  // namespace tutti

#endif  // TUTTI_SRC_TRANSPORT_TCP_LINK_SPEED_H_
