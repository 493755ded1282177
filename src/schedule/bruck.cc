// All-gather kBruck: Bruck's exchange (bruck_exchange.h), with every block sent from and received in its place in
// kOutput.

#include "src/schedule/algorithms.h"
#include "src/schedule/bruck_exchange.h"
#include "src/schedule/schedule_builder.h"

namespace tutti {

Schedule BruckAllGather(const ScheduleKey& key) {
  const auto slice = [](Space space, int owner) { return Operand{space, static_cast<uint32_t>(owner)}; };
  ScheduleBuilder builder(key, static_cast<uint32_t>(key.size));
  builder.Copy(slice(kInput, key.rank), slice(kOutput, key.rank));
  AddBruckExchange(builder, key.size, key.rank, [&](int owner) { return slice(kOutput, owner); });
  return std::move(builder).Build();
}

}  // namespace tutti
