// Every guarded function of UCX, from an endpoint that leads to its own worker.
#include "distwrap/guard.h"
#include "engine_functions.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ucp/api/ucp.h>
#include <vector>

namespace distwrap {
namespace {

constexpr uint64_t kValue = 0x0102030405060708;
constexpr ucp_tag_t kAllTag = UINT64_MAX;
const ucp_datatype_t kByte = ucp_dt_make_contig(1);
const ucp_request_param_t kNone = {};

void need(ucs_status_t status) {
  if (status != UCS_OK) std::abort();
}

// A worker with an endpoint to itself, and memory that others may write.
struct Loop {
  ucp_context_h context = nullptr;
  ucp_worker_h worker = nullptr;
  ucp_ep_h ep = nullptr;
  ucp_mem_h memory = nullptr;
  ucp_rkey_h rkey = nullptr;
  size_t request_size = 0;
  alignas(64) uint64_t remote[8] = {};
  int messages = 0;  // active messages that have come

  uint64_t address() const { return reinterpret_cast<uint64_t>(remote); }

  Loop() {
    ucp_params_t params = {};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_TAG | UCP_FEATURE_RMA | UCP_FEATURE_AMO32 |
                      UCP_FEATURE_AMO64 | UCP_FEATURE_STREAM | UCP_FEATURE_AM;
    need(ucp_init(&params, nullptr, &context));
    ucp_context_attr_t attr = {};
    attr.field_mask = UCP_ATTR_FIELD_REQUEST_SIZE;
    need(ucp_context_query(context, &attr));
    request_size = attr.request_size;
    const ucp_worker_params_t plain = {};
    need(ucp_worker_create(context, &plain, &worker));
    ucp_address_t* own = nullptr;
    size_t length = 0;
    need(ucp_worker_get_address(worker, &own, &length));
    ucp_ep_params_t to = {};
    to.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    to.address = own;
    need(ucp_ep_create(worker, &to, &ep));
    ucp_worker_release_address(worker, own);
    ucp_mem_map_params_t map = {};
    map.field_mask =
        UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    map.address = remote;
    map.length = sizeof remote;
    need(ucp_mem_map(context, &map, &memory));
    void* packed = nullptr;
    need(ucp_rkey_pack(context, memory, &packed, &length));
    need(ucp_ep_rkey_unpack(ep, packed, &rkey));
    ucp_rkey_buffer_release(packed);
    for (const unsigned id : {1u, 2u}) {
      ucp_am_handler_param_t handler = {};
      handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                           UCP_AM_HANDLER_PARAM_FIELD_CB |
                           UCP_AM_HANDLER_PARAM_FIELD_ARG;
      handler.id = id;
      handler.cb = [](void* loop, const void*, size_t, void*, size_t,
                      const ucp_am_recv_param_t*) {
        ++static_cast<Loop*>(loop)->messages;
        return UCS_OK;
      };
      handler.arg = this;
      need(ucp_worker_set_am_recv_handler(worker, &handler));
    }
  }

  template <class Condition>
  void progress_until(const Condition& condition) {
    for (int i = 0; i < 10'000'000 && !condition(); ++i)
      ucp_worker_progress(worker);
  }

  // Waits for a request of any function.
  ucs_status_t end(ucs_status_ptr_t request) {
    if (request == nullptr) return UCS_OK;
    if (UCS_PTR_IS_ERR(request)) return UCS_PTR_STATUS(request);
    progress_until(
        [&] { return ucp_request_check_status(request) != UCS_INPROGRESS; });
    const ucs_status_t status = ucp_request_check_status(request);
    ucp_request_free(request);
    return status;
  }
  ucs_status_t flushed(ucs_status_t status) {
    if (status != UCS_OK && status != UCS_INPROGRESS) return status;
    const ucs_status_t flush = end(ucp_worker_flush_nbx(worker, &kNone));
    return flush;
  }
};

Loop& loop() {
  static auto* const kLoop = new Loop();
  return *kLoop;
}

void ignore_send(void*, ucs_status_t) {}
void ignore_recv(void*, ucs_status_t, ucp_tag_recv_info_t*) {}
void ignore_stream(void*, ucs_status_t, size_t) {}

// Sends what a receive then takes; part of the test and not of the call.
void offer() {
  const GuardAllow allow("what a receive takes");
  static uint64_t value = kValue;
  need(loop().end(ucp_tag_send_nbx(loop().ep, &value, 8, 5, &kNone)));
}
void take() {
  const GuardAllow allow("what a send leaves");
  uint64_t got = 0;
  need(
      loop().end(ucp_tag_recv_nbx(loop().worker, &got, 8, 5, kAllTag, &kNone)));
}
void offer_to_stream() {
  const GuardAllow allow("what a receive takes");
  static uint64_t value = kValue;
  need(loop().end(ucp_stream_send_nbx(loop().ep, &value, 8, &kNone)));
}
void take_from_stream() {
  const GuardAllow allow("what a send leaves");
  uint64_t got = 0;
  size_t length = 0;
  ucp_request_param_t all = {};
  all.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  all.flags = UCP_STREAM_RECV_FLAG_WAITALL;
  need(loop().end(ucp_stream_recv_nbx(loop().ep, &got, 8, &length, &all)));
}
ucp_tag_message_h probed() {
  offer();
  ucp_tag_message_h message = nullptr;
  ucp_tag_recv_info_t info = {};
  loop().progress_until([&] {
    message = ucp_tag_probe_nb(loop().worker, 5, kAllTag, 1, &info);
    return message != nullptr;
  });
  return message;
}

Outcome outcome(ucs_status_t status, bool is_right) {
  if (status == UCS_ERR_UNSUPPORTED) return Outcome::kRefused;
  return status == UCS_OK && is_right ? Outcome::kDone : Outcome::kWrong;
}

using Loops = std::function<ucs_status_t(Loop&)>;

// A send by tag, whose message is taken afterwards if it went.
EngineFunction sends(const char* name, Loops call) {
  return {name, [call] {
            const ucs_status_t status = call(loop());
            if (status == UCS_OK) take();
            ucp_tag_recv_info_t info = {};
            ucp_worker_progress(loop().worker);
            // A refused call has sent nothing.
            return outcome(status, true) == Outcome::kRefused &&
                           ucp_tag_probe_nb(loop().worker, 5, kAllTag, 0,
                                            &info) != nullptr
                       ? Outcome::kWrong
                       : outcome(status, true);
          }};
}

// A function that changes a word of `remote`, or reads it into `got`.
EngineFunction changes(const char* name, uint64_t before, uint64_t after,
                       std::function<ucs_status_t(Loop&, uint64_t* got)> call,
                       bool fetches) {
  return {name, [=] {
            static uint64_t got;
            got = 0;
            loop().remote[0] = before;
            const ucs_status_t status = loop().flushed(call(loop(), &got));
            if (status == UCS_ERR_UNSUPPORTED)
              return loop().remote[0] == before && got == 0 ? Outcome::kRefused
                                                            : Outcome::kWrong;
            return outcome(status, loop().remote[0] == after &&
                                       (!fetches || got == before));
          }};
}

// A receive of what was offered before.
EngineFunction receives(
    const char* name, void (*offers)(), void (*takes)(),
    std::function<ucs_status_t(Loop&, uint64_t* got)> call) {
  return {name, [=] {
            offers();
            uint64_t got = 0;
            const ucs_status_t status = call(loop(), &got);
            if (status == UCS_ERR_UNSUPPORTED) takes();
            return outcome(status, got == kValue);
          }};
}

uint64_t value = kValue;
size_t length = 0;

// The memory of a request for functions that make none.
void* room(Loop& l) {
  static std::vector<char> memory(4096);
  std::memset(memory.data(), 0, memory.size());
  return memory.data() + l.request_size;
}
ucs_status_t end_in_room(Loop& l, ucs_status_t status, void* request) {
  if (status != UCS_INPROGRESS && status != UCS_OK) return status;
  if (status == UCS_OK) return status;
  l.progress_until(
      [&] { return ucp_request_check_status(request) != UCS_INPROGRESS; });
  return ucp_request_check_status(request);
}

void add_messages(std::vector<EngineFunction>* all) {
  all->push_back(sends("ucp_tag_send_nb", [](Loop& l) {
    return l.end(ucp_tag_send_nb(l.ep, &value, 8, kByte, 5, &ignore_send));
  }));
  all->push_back(sends("ucp_tag_send_nbr", [](Loop& l) {
    void* const request = room(l);
    return end_in_room(l, ucp_tag_send_nbr(l.ep, &value, 8, kByte, 5, request),
                       request);
  }));
  all->push_back(sends("ucp_tag_send_nbx", [](Loop& l) {
    return l.end(ucp_tag_send_nbx(l.ep, &value, 8, 5, &kNone));
  }));
  // A synchronous send ends when it is received.
  const auto synchronous = [](ucs_status_ptr_t request) {
    if (UCS_PTR_IS_ERR(request)) return UCS_PTR_STATUS(request);
    take();
    const ucs_status_t status = loop().end(request);
    if (status == UCS_OK) offer();  // for the caller, who takes it
    return status;
  };
  all->push_back(sends("ucp_tag_send_sync_nb", [=](Loop& l) {
    return synchronous(
        ucp_tag_send_sync_nb(l.ep, &value, 8, kByte, 5, &ignore_send));
  }));
  all->push_back(sends("ucp_tag_send_sync_nbx", [=](Loop& l) {
    return synchronous(ucp_tag_send_sync_nbx(l.ep, &value, 8, 5, &kNone));
  }));
  all->push_back(
      receives("ucp_tag_recv_nb", &offer, &take, [](Loop& l, uint64_t* got) {
        return l.end(
            ucp_tag_recv_nb(l.worker, got, 8, kByte, 5, kAllTag, &ignore_recv));
      }));
  all->push_back(
      receives("ucp_tag_recv_nbr", &offer, &take, [](Loop& l, uint64_t* got) {
        void* const request = room(l);
        const ucs_status_t status =
            ucp_tag_recv_nbr(l.worker, got, 8, kByte, 5, kAllTag, request);
        if (status != UCS_OK) return status;
        l.progress_until([&] {
          return ucp_request_check_status(request) != UCS_INPROGRESS;
        });
        return ucp_request_check_status(request);
      }));
  all->push_back(
      receives("ucp_tag_recv_nbx", &offer, &take, [](Loop& l, uint64_t* got) {
        return l.end(ucp_tag_recv_nbx(l.worker, got, 8, 5, kAllTag, &kNone));
      }));
  // A probed message is out of the queue: a refused receive leaves it.
  static ucp_tag_message_h message = nullptr;
  const auto probe = [] { message = probed(); };
  const auto drop = [] {
    const GuardAllow allow("what a receive left");
    uint64_t got = 0;
    need(loop().end(
        ucp_tag_msg_recv_nbx(loop().worker, &got, 8, message, &kNone)));
  };
  all->push_back(
      receives("ucp_tag_msg_recv_nb", probe, drop, [](Loop& l, uint64_t* got) {
        return l.end(ucp_tag_msg_recv_nb(l.worker, got, 8, kByte, message,
                                         &ignore_recv));
      }));
  all->push_back(
      receives("ucp_tag_msg_recv_nbx", probe, drop, [](Loop& l, uint64_t* got) {
        return l.end(ucp_tag_msg_recv_nbx(l.worker, got, 8, message, &kNone));
      }));
  const auto streams = [](const char* name, Loops call) -> EngineFunction {
    return {name, [call] {
              const ucs_status_t status = call(loop());
              if (status == UCS_OK) take_from_stream();
              return outcome(status, true);
            }};
  };
  all->push_back(streams("ucp_stream_send_nb", [](Loop& l) {
    return l.end(ucp_stream_send_nb(l.ep, &value, 8, kByte, &ignore_send, 0));
  }));
  all->push_back(streams("ucp_stream_send_nbx", [](Loop& l) {
    return l.end(ucp_stream_send_nbx(l.ep, &value, 8, &kNone));
  }));
  all->push_back(receives("ucp_stream_recv_nb", &offer_to_stream,
                          &take_from_stream, [](Loop& l, uint64_t* got) {
                            return l.end(ucp_stream_recv_nb(
                                l.ep, got, 8, kByte, &ignore_stream, &length,
                                UCP_STREAM_RECV_FLAG_WAITALL));
                          }));
  all->push_back(receives("ucp_stream_recv_nbx", &offer_to_stream,
                          &take_from_stream, [](Loop& l, uint64_t* got) {
                            ucp_request_param_t whole = {};
                            whole.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
                            whole.flags = UCP_STREAM_RECV_FLAG_WAITALL;
                            return l.end(ucp_stream_recv_nbx(l.ep, got, 8,
                                                             &length, &whole));
                          }));
  const auto messages = [](const char* name, Loops call) -> EngineFunction {
    return {name, [call] {
              const int before = loop().messages;
              const ucs_status_t status = call(loop());
              if (status == UCS_OK)
                loop().progress_until([&] { return loop().messages > before; });
              return outcome(status, loop().messages == before + 1);
            }};
  };
  all->push_back(messages("ucp_am_send_nb", [](Loop& l) {
    return l.end(ucp_am_send_nb(l.ep, 1, &value, 8, kByte, &ignore_send, 0));
  }));
  all->push_back(messages("ucp_am_send_nbx", [](Loop& l) {
    return l.end(ucp_am_send_nbx(l.ep, 2, nullptr, 0, &value, 8, &kNone));
  }));
}

void add_memory(std::vector<EngineFunction>* all) {
  const auto put = [&](const char* name, auto call) {
    all->push_back(changes(
        name, 1, kValue,
        [=](Loop& l, uint64_t*) { return call(l, l.address()); }, false));
  };
  put("ucp_put", [](Loop& l, uint64_t to) {
    return ucp_put(l.ep, &value, 8, to, l.rkey);
  });
  put("ucp_put_nb", [](Loop& l, uint64_t to) {
    return l.end(ucp_put_nb(l.ep, &value, 8, to, l.rkey, &ignore_send));
  });
  put("ucp_put_nbi", [](Loop& l, uint64_t to) {
    return ucp_put_nbi(l.ep, &value, 8, to, l.rkey);
  });
  put("ucp_put_nbx", [](Loop& l, uint64_t to) {
    return l.end(ucp_put_nbx(l.ep, &value, 8, to, l.rkey, &kNone));
  });
  const auto get = [&](const char* name, auto call) {
    all->push_back(changes(name, 9, 9, call, true));
  };
  get("ucp_get", [](Loop& l, uint64_t* got) {
    return ucp_get(l.ep, got, 8, l.address(), l.rkey);
  });
  get("ucp_get_nb", [](Loop& l, uint64_t* got) {
    return l.end(ucp_get_nb(l.ep, got, 8, l.address(), l.rkey, &ignore_send));
  });
  get("ucp_get_nbi", [](Loop& l, uint64_t* got) {
    return ucp_get_nbi(l.ep, got, 8, l.address(), l.rkey);
  });
  get("ucp_get_nbx", [](Loop& l, uint64_t* got) {
    return l.end(ucp_get_nbx(l.ep, got, 8, l.address(), l.rkey, &kNone));
  });
}

void add_atomics(std::vector<EngineFunction>* all) {
  const auto atomic = [&](const char* name, uint64_t after, bool fetches,
                          auto call) {
    all->push_back(changes(name, 5, after, call, fetches));
  };
  // Words of 32 bits lie in the lower half.
  const auto low = [](uint64_t* got) {
    return reinterpret_cast<uint32_t*>(got);
  };
  atomic("ucp_atomic_add32", 7, false, [](Loop& l, uint64_t*) {
    return ucp_atomic_add32(l.ep, 2, l.address(), l.rkey);
  });
  atomic("ucp_atomic_add64", 7, false, [](Loop& l, uint64_t*) {
    return ucp_atomic_add64(l.ep, 2, l.address(), l.rkey);
  });
  atomic("ucp_atomic_post", 7, false, [](Loop& l, uint64_t*) {
    return ucp_atomic_post(l.ep, UCP_ATOMIC_POST_OP_ADD, 2, 8, l.address(),
                           l.rkey);
  });
  atomic("ucp_atomic_fadd32", 7, true, [=](Loop& l, uint64_t* got) {
    return ucp_atomic_fadd32(l.ep, 2, l.address(), l.rkey, low(got));
  });
  atomic("ucp_atomic_fadd64", 7, true, [](Loop& l, uint64_t* got) {
    return ucp_atomic_fadd64(l.ep, 2, l.address(), l.rkey, got);
  });
  atomic("ucp_atomic_swap32", 8, true, [=](Loop& l, uint64_t* got) {
    return ucp_atomic_swap32(l.ep, 8, l.address(), l.rkey, low(got));
  });
  atomic("ucp_atomic_swap64", 8, true, [](Loop& l, uint64_t* got) {
    return ucp_atomic_swap64(l.ep, 8, l.address(), l.rkey, got);
  });
  atomic("ucp_atomic_cswap32", 8, true, [=](Loop& l, uint64_t* got) {
    return ucp_atomic_cswap32(l.ep, 5, 8, l.address(), l.rkey, low(got));
  });
  atomic("ucp_atomic_cswap64", 8, true, [](Loop& l, uint64_t* got) {
    return ucp_atomic_cswap64(l.ep, 5, 8, l.address(), l.rkey, got);
  });
  atomic("ucp_atomic_fetch_nb", 7, true, [](Loop& l, uint64_t* got) {
    return l.end(ucp_atomic_fetch_nb(l.ep, UCP_ATOMIC_FETCH_OP_FADD, 2, got, 8,
                                     l.address(), l.rkey, &ignore_send));
  });
  atomic("ucp_atomic_op_nbx", 7, true, [](Loop& l, uint64_t* got) {
    static uint64_t two;
    two = 2;
    ucp_request_param_t fetch = {};
    fetch.op_attr_mask =
        UCP_OP_ATTR_FIELD_REPLY_BUFFER | UCP_OP_ATTR_FIELD_DATATYPE;
    fetch.reply_buffer = got;
    fetch.datatype = ucp_dt_make_contig(8);
    return l.end(ucp_atomic_op_nbx(l.ep, UCP_ATOMIC_OP_ADD, &two, 1,
                                   l.address(), l.rkey, &fetch));
  });
}

}  // namespace

std::vector<EngineFunction> ucx_functions() {
  std::vector<EngineFunction> all;
  add_messages(&all);
  add_memory(&all);
  add_atomics(&all);
  return all;
}

}  // namespace distwrap
