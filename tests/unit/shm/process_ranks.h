// N ranks as processes over the shm backend.
#ifndef DISTWRAP_TESTS_UNIT_SHM_PROCESS_RANKS_H_
#define DISTWRAP_TESTS_UNIT_SHM_PROCESS_RANKS_H_

#include "conformance/linked.h"
#include "conformance/process_ranks.h"
#include "fakes/compose_over.h"

#include <functional>

namespace distwrap::shm_test {

using conformance::Rank;

class ProcessRanks : public conformance::ProcessRanks {
 public:
  ProcessRanks(int size, const std::function<int(Rank&)>& body)
      : conformance::ProcessRanks(
            {.table = fakes::table_of<dw_plugin_query_v1_shm>}, size, body) {}
};

}  // namespace distwrap::shm_test

#endif  // DISTWRAP_TESTS_UNIT_SHM_PROCESS_RANKS_H_
