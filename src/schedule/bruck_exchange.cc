#include "src/schedule/bruck_exchange.h"

#include <algorithm>

namespace tutti {

void AddBruckExchange(ScheduleBuilder& builder, int size, int rank, absl::FunctionRef<Operand(int owner)> place) {
  const auto owner = [=](int offset) { return (rank + offset) % size; };
  for (int distance = 1; distance < size; distance *= 2) {
    const int count = std::min(distance, size - distance);
    for (int offset = 0; offset < count; ++offset) builder.Send(place(owner(offset)), owner(size - distance));
    for (int offset = 0; offset < count; ++offset) builder.Recv(owner(distance), place(owner(distance + offset)));
  }
}

}  // namespace tutti
