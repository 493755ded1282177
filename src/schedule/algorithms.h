// The algorithms behind BuildSchedule, one file each. Keys are valid when they arrive here.

#ifndef TUTTI_SRC_SCHEDULE_ALGORITHMS_H_
#define TUTTI_SRC_SCHEDULE_ALGORITHMS_H_

#include "src/schedule/builders.h"
#include "src/schedule/schedule.h"

namespace tutti {

Schedule GatherAllReduce(const ScheduleKey& key);       // gather.cc
Schedule DoublingAllReduce(const ScheduleKey& key);     // doubling.cc
Schedule HalvingAllReduce(const ScheduleKey& key);      // halving.cc
Schedule HalvingReduceScatter(const ScheduleKey& key);  // halving_reduce_scatter.cc
Schedule DirectAllReduce(const ScheduleKey& key);       // direct.cc
Schedule DirectReduceScatter(const ScheduleKey& key);   // direct.cc
Schedule DirectAllGather(const ScheduleKey& key);       // direct.cc
Schedule BruckAllGather(const ScheduleKey& key);        // bruck.cc
Schedule DisseminationBarrier(const ScheduleKey& key);  // dissemination.cc
Schedule TreeBroadcast(const ScheduleKey& key);         // tree.cc
Schedule PairSend(const ScheduleKey& key);              // pair.cc
Schedule PairRecv(const ScheduleKey& key);              // pair.cc

}  // namespace tutti

#endif  // TUTTI_SRC_SCHEDULE_ALGORITHMS_H_
