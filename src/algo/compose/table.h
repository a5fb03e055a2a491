// Declarations that the files with slots of the table share.
#ifndef DISTWRAP_SRC_ALGO_COMPOSE_TABLE_H_
#define DISTWRAP_SRC_ALGO_COMPOSE_TABLE_H_

#include "algo/compose/backend.h"
#include "algo/compose/comm.h"
#include "distwrap/abi/plugin.h"

namespace distwrap::algo::compose {

// setup.cc
int32_t setup_begin(dw_backend* backend, const dw_setup_info* info,
                    dw_setup** setup, dw_blob* out, dw_error* error);
int32_t setup_step(dw_setup* setup, const dw_blob* in, uint64_t n, dw_blob* out,
                   dw_setup_result* result, dw_error* error);
void setup_cancel(dw_setup* setup);

// group.cc
int32_t submit_group(dw_backend* backend, const dw_group_item* items,
                     uint64_t n, dw_error* error);

}  // namespace distwrap::algo::compose

#endif  // DISTWRAP_SRC_ALGO_COMPOSE_TABLE_H_
