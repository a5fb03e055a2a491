// Calls of ranks that are threads, for the tests of `compose`.
#ifndef DISTWRAP_TESTS_UNIT_ALGO_COMPOSE_CALLS_H_
#define DISTWRAP_TESTS_UNIT_ALGO_COMPOSE_CALLS_H_

#include "fakes/compose_over.h"
#include "fakes/messages.h"
#include "team.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace distwrap::conformance {

using fakes::compose_over;
using fakes::table_of;

inline constexpr std::chrono::seconds kLong(20);
inline constexpr auto kMessages =
    compose_over<table_of<dw_plugin_query_v1_messages>>;
inline constexpr auto kAsync =
    compose_over<table_of<dw_plugin_query_v1_messages_async>>;
inline constexpr auto kPolled =
    compose_over<table_of<dw_plugin_query_v1_messages_polled>>;

inline void on_ranks(const dw_backend_api& api, int size,
                     const std::function<void(Member&)>& body) {
  Findings findings;
  run_team(api, size, {}, findings, body);
  EXPECT_TRUE(findings.empty()) << findings.text();
}

inline dw_buf buf_of(std::vector<int32_t>& values) {
  dw_buf buf = {};
  buf.data = values.data();
  buf.count = static_cast<int64_t>(values.size());
  buf.dtype = {0, 32, 1};
  return buf;
}

inline dw_op op_of(uint16_t kind) {
  dw_op op = {};
  op.struct_size = sizeof op;
  op.kind = kind;
  op.peer = -1;
  return op;
}

inline dw_op collective(Member& member, uint16_t kind, std::vector<int32_t>& in,
                        std::vector<int32_t>& out) {
  dw_op op = op_of(kind);
  op.reduce = kind == DW_OP_ALL_REDUCE || kind == DW_OP_REDUCE_SCATTER
                  ? DW_REDUCE_SUM
                  : DW_REDUCE_NONE;
  op.in = buf_of(in);
  op.out = buf_of(out);
  op.seq = member.next_seq++;
  return op;
}

inline dw_op barrier(Member& member) {
  dw_op op = op_of(DW_OP_BARRIER);
  op.seq = member.next_seq++;
  return op;
}

inline dw_op message(uint16_t kind, int peer, uint64_t tag,
                     std::vector<int32_t>& values) {
  dw_op op = op_of(kind);
  op.peer = peer;
  op.tag = tag;
  (kind == DW_OP_SEND ? op.in : op.out) = buf_of(values);
  return op;
}

// Starts an operation and, if requested, waits for it.
struct Started {
  dw_work work;
  bool pending = false;
};

inline std::unique_ptr<Started> start(Member& member, const dw_op& op) {
  auto started = std::make_unique<Started>();
  dw_error error = {};
  int32_t code = DW_AGAIN;
  while (code == DW_AGAIN)
    code = member.api.submit(member.comm, &op, &started->work, &error);
  started->pending = code == DW_OK;
  if (code > DW_OK) member.find("submit: " + error_text(code, error));
  return started;
}

inline int32_t finish(Member& member, Started& started) {
  if (!started.pending) return DW_OK;
  const auto limit = std::chrono::steady_clock::now() + kLong;
  while (!started.work.wait(std::chrono::milliseconds(1))) {
    member.api.progress(member.backend);
    if (std::chrono::steady_clock::now() > limit) {
      member.find("did not complete");
      return DW_DEADLINE_EXCEEDED;
    }
  }
  return started.work.code();
}

inline void finish_well(Member& member, Started& started) {
  const int32_t code = finish(member, started);
  if (code != DW_OK)
    member.find("ended: " + error_text(code, started.work.error()));
}

inline int32_t call(Member& member, dw_op op, dw_error* error = nullptr) {
  op.flags |= DW_FLAG_CALLER_WAITS;
  int32_t code = DW_AGAIN;
  while (code == DW_AGAIN)
    code = member.api.submit(member.comm, &op, nullptr, error);
  return code;
}

inline void call_well(Member& member, const dw_op& op) {
  dw_error error = {};
  const int32_t code = call(member, op, &error);
  if (code != DW_DONE) member.find("call: " + error_text(code, error));
}

inline int32_t submit_set(Member& member, std::vector<dw_op>& ops,
                          dw_error* error = nullptr) {
  std::vector<dw_group_item> items;
  for (dw_op& op : ops) {
    op.flags |= DW_FLAG_CALLER_WAITS;
    items.push_back({member.comm, &op, nullptr});
  }
  return member.api.submit_group(member.backend, items.data(), items.size(),
                                 error);
}

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_UNIT_ALGO_COMPOSE_CALLS_H_
