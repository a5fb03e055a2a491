// The backend's table, and ranks of it that are threads.
#ifndef DISTWRAP_TESTS_UNIT_SHM_THREAD_RANKS_H_
#define DISTWRAP_TESTS_UNIT_SHM_THREAD_RANKS_H_

#include "distwrap/abi/plugin.h"
#include "team.h"

#include <gtest/gtest.h>

#include <functional>

extern "C" const dw_backend_api* dw_plugin_query_v1_shm(const dw_host_info*);

namespace distwrap::shm_test {

inline const dw_backend_api& shm() {
  static const dw_host_info host = {
      sizeof(dw_host_info), DW_ABI_MAJOR, DW_ABI_MINOR, 0, 0, {"test", 4}};
  return *dw_plugin_query_v1_shm(&host);
}

inline void run_threads(int size,
                        const std::function<void(conformance::Member&)>& body) {
  conformance::Findings findings;
  conformance::run_team(shm(), size, conformance::Limits(), findings, body);
  EXPECT_TRUE(findings.empty()) << findings.text();
}

}  // namespace distwrap::shm_test

#endif  // DISTWRAP_TESTS_UNIT_SHM_THREAD_RANKS_H_
