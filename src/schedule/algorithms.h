// The algorithms behind BuildSchedule, one file each. Keys are valid when they arrive here.

#ifndef TUTTI_SRC_SCHEDULE_ALGORITHMS_H_
#define TUTTI_SRC_SCHEDULE_ALGORITHMS_H_

#include "src/schedule/builders.h"
#include "src/schedule/schedule.h"

namespace tutti {

Schedule ExchangeAllReduce(const ScheduleKey& key);      // exchange.cc
Schedule GatherAllReduce(const ScheduleKey& key);        // gather.cc
Schedule DoublingAllReduce(const ScheduleKey& key);      // doubling.cc
Schedule QuadruplingAllReduce(const ScheduleKey& key);   // doubling.cc
Schedule HalvingAllReduce(const ScheduleKey& key);       // halving.cc
Schedule DirectAllReduce(const ScheduleKey& key);        // direct.cc
Schedule HierarchicalAllReduce(const ScheduleKey& key);  // hierarchical.cc
Schedule RingAllReduce(const ScheduleKey& key);          // ring.cc
Schedule HalvingReduceScatter(const ScheduleKey& key);   // halving_reduce_scatter.cc
Schedule DirectReduceScatter(const ScheduleKey& key);    // direct.cc
Schedule RingReduceScatter(const ScheduleKey& key);      // ring.cc
Schedule BruckAllGather(const ScheduleKey& key);         // bruck.cc
Schedule DirectAllGather(const ScheduleKey& key);        // direct.cc
Schedule RingAllGather(const ScheduleKey& key);          // ring.cc
Schedule TreeBroadcast(const ScheduleKey& key);          // tree.cc
Schedule DirectBroadcast(const ScheduleKey& key);        // rooted_direct.cc
Schedule GatherReduce(const ScheduleKey& key);           // exchange.cc
Schedule TreeReduce(const ScheduleKey& key);             // reduce_tree.cc
Schedule DirectReduce(const ScheduleKey& key);           // direct.cc
Schedule TreeGather(const ScheduleKey& key);             // tree.cc
Schedule DirectGather(const ScheduleKey& key);           // rooted_direct.cc
Schedule TreeScatter(const ScheduleKey& key);            // tree.cc
Schedule DirectScatter(const ScheduleKey& key);          // rooted_direct.cc
Schedule BruckAllToAll(const ScheduleKey& key);          // all_to_all.cc
Schedule DirectAllToAll(const ScheduleKey& key);         // all_to_all.cc
Schedule DisseminationBarrier(const ScheduleKey& key);   // dissemination.cc
Schedule PairSend(const ScheduleKey& key);               // pair.cc
Schedule PairRecv(const ScheduleKey& key);               // pair.cc

}  // namespace tutti

#endif  // TUTTI_SRC_SCHEDULE_ALGORITHMS_H_
