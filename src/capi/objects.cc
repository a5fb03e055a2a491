// Objects between ranks, as bytes.
#include "distwrap/objects.h"

#include "base/error.h"
#include "capi/arguments.h"
#include "capi/entry.h"
#include "distwrap/c.h"

#include <absl/strings/str_cat.h>

#include <utility>
#include <vector>

namespace distwrap::capi {
namespace {

// Stands for an object that this rank does not have, and says why. It cannot be
// written, so the exchange fails on all ranks at once, with this text.
struct NoObject {
  std::string why;
};

void register_no_object() {
  static const absl::Status registered = register_object_type<NoObject>(
      "distwrap.no_object",
      [](const NoObject& object) -> absl::StatusOr<std::string> {
        return base::make_error(
            {.reason = Reason::kObjectType, .what = object.why});
      },
      [](absl::string_view) -> absl::StatusOr<NoObject> {
        return base::make_error({.reason = Reason::kObjectDecode,
                                 .what = "no rank sends this type"});
      });
  registered.IgnoreError();
}

// The arguments of one exchange, from C and back.
class Exchange {
 public:
  Exchange(const char* call, int32_t encoding,
           const distwrap_op_options* options)
      : call_(call), encoding_(encoding), arguments_(call) {
    arguments_.read(options, false);
    arguments_.refuse_batch();
    register_no_object();
  }

  Object object(const distwrap_bytes* bytes) {
    if (bytes == nullptr || (bytes->data == nullptr && bytes->size != 0)) {
      keep(refuse_null(call_, "object"));
      return Object::of(NoObject{"the caller gave NULL"});
    }
    const absl::string_view text(static_cast<const char*>(bytes->data),
                                 bytes->size);
    if (encoding_ == DW_OBJECT_REFUSED) {
      keep(base::make_error({.reason = Reason::kObjectType,
                             .what = std::string(text),
                             .op = call_}));
      return Object::of(NoObject{std::string(text)});
    }
    if (encoding_ == DW_OBJECT_BYTES) return Object::bytes(std::string(text));
    absl::StatusOr<Object> read = decode_object(text);
    if (read.ok()) return *std::move(read);
    NoObject none{std::string(read.status().message())};
    keep(read.status());
    return Object::of(std::move(none));
  }
  // Empty on ranks where the list is not used.
  std::vector<Object> objects(const distwrap_bytes* list, uint64_t count) {
    std::vector<Object> all;
    for (uint64_t i = 0; list != nullptr && i < count; ++i)
      all.push_back(object(&list[i]));
    return all;
  }
  Peer peer(const distwrap_peer& peer) { return arguments_.of(peer); }

  // The error that prevents the exchange: bad options, not bad objects.
  const absl::Status& refused() const { return arguments_.status(); }
  const OpOptions& options() const { return arguments_.options(); }
  // The error of a failed exchange; this rank's own cause comes first.
  absl::Status end(const absl::Status& ended) const {
    return own_.ok() ? ended : own_;
  }

  absl::Status give(absl::Span<const Object> objects, distwrap_list* list) {
    List bytes;
    for (const Object& object : objects) {
      if (encoding_ == DW_OBJECT_ENCODED) {
        absl::StatusOr<std::string> written = encode_object(object);
        if (!written.ok()) return written.status();
        bytes.push_back(*std::move(written));
      } else if (const std::string* const own = object.if_bytes()) {
        bytes.push_back(*own);
      } else {
        return base::make_error(
            {.reason = Reason::kObjectType,
             .what = absl::StrCat("object ", bytes.size(), " is no bytes"),
             .op = call_,
             .actual = object.to_string(100),
             .next_step = "take it with DW_OBJECT_ENCODED"});
      }
    }
    return list == nullptr ? absl::OkStatus()
                           : hand_out(call_, std::move(bytes), list);
  }

 private:
  void keep(absl::Status status) {
    if (own_.ok()) own_ = std::move(status);
  }

  const char* const call_;
  const int32_t encoding_;
  Arguments arguments_;
  absl::Status own_;
};

// Runs `f(exchange)` in the frame of a C function.
template <class F>
int32_t exchange(const char* call, int32_t encoding,
                 const distwrap_op_options* options, distwrap_error* error,
                 const F& f) {
  return entry(call, error, [&]() -> absl::Status {
    if (encoding < DW_OBJECT_BYTES || encoding > DW_OBJECT_REFUSED)
      return refuse(call, absl::StrCat("there is no encoding ", encoding),
                    "use DW_OBJECT_BYTES or DW_OBJECT_ENCODED");
    Exchange one(call, encoding, options);
    return one.refused().ok() ? f(one) : one.refused();
  });
}

// Refuses a count that no list in memory can have.
absl::Status check_count(const char* call, uint64_t count) {
  return count <= uint64_t{INT32_MAX}
             ? absl::OkStatus()
             : refuse(call, absl::StrCat("there are ", count, " objects"),
                      "give fewer");
}

}  // namespace
}  // namespace distwrap::capi

using namespace distwrap::capi;  // NOLINT(google-build-using-namespace)
using distwrap::Object;

int32_t distwrap_all_gather_object(const distwrap_bytes* object,
                                   int32_t encoding,
                                   const distwrap_op_options* options,
                                   distwrap_list* list, distwrap_error* error) {
  if (list != nullptr) *list = nullptr;
  return exchange("all_gather_object", encoding, options, error,
                  [&](Exchange& x) -> absl::Status {
                    const auto all = distwrap::all_gather_object(
                        x.object(object), x.options());
                    return all.ok() ? x.give(*all, list) : x.end(all.status());
                  });
}

int32_t distwrap_gather_object(const distwrap_bytes* object, int32_t encoding,
                               distwrap_peer dst,
                               const distwrap_op_options* options,
                               distwrap_list* list, distwrap_error* error) {
  if (list != nullptr) *list = nullptr;
  return exchange("gather_object", encoding, options, error,
                  [&](Exchange& x) -> absl::Status {
                    const distwrap::Peer root = x.peer(dst);
                    if (!x.refused().ok()) return x.refused();
                    const auto all = distwrap::gather_object(x.object(object),
                                                             root, x.options());
                    return all.ok() ? x.give(*all, list) : x.end(all.status());
                  });
}

int32_t distwrap_broadcast_object_list(const distwrap_bytes* objects,
                                       uint64_t count, int32_t encoding,
                                       distwrap_peer src,
                                       const distwrap_op_options* options,
                                       distwrap_list* list,
                                       distwrap_error* error) {
  if (list != nullptr) *list = nullptr;
  constexpr const char* kCall = "broadcast_object_list";
  return exchange(kCall, encoding, options, error,
                  [&](Exchange& x) -> absl::Status {
                    const distwrap::Peer root = x.peer(src);
                    if (!x.refused().ok()) return x.refused();
                    absl::Status good = check_count(kCall, count);
                    if (!good.ok()) return good;
                    std::vector<Object> all = x.objects(objects, count);
                    all.resize(count);
                    absl::Status ended = distwrap::broadcast_object_list(
                        absl::MakeSpan(all), root, x.options());
                    return ended.ok() ? x.give(all, list) : x.end(ended);
                  });
}

int32_t distwrap_scatter_object_list(const distwrap_bytes* objects,
                                     uint64_t count, int32_t encoding,
                                     distwrap_peer src,
                                     const distwrap_op_options* options,
                                     distwrap_list* list,
                                     distwrap_error* error) {
  if (list != nullptr) *list = nullptr;
  return exchange(
      "scatter_object_list", encoding, options, error,
      [&](Exchange& x) -> absl::Status {
        const distwrap::Peer root = x.peer(src);
        if (!x.refused().ok()) return x.refused();
        const auto mine = distwrap::scatter_object_list(
            x.objects(objects, count), root, x.options());
        return mine.ok() ? x.give({&*mine, 1}, list) : x.end(mine.status());
      });
}

int32_t distwrap_send_object_list(const distwrap_bytes* objects, uint64_t count,
                                  int32_t encoding, distwrap_peer dst,
                                  const distwrap_op_options* options,
                                  distwrap_error* error) {
  return exchange("send_object_list", encoding, options, error,
                  [&](Exchange& x) -> absl::Status {
                    const distwrap::Peer peer = x.peer(dst);
                    if (!x.refused().ok()) return x.refused();
                    if (objects == nullptr && count != 0)
                      return refuse_null("send_object_list", "objects");
                    return x.end(distwrap::send_object_list(
                        x.objects(objects, count), peer, x.options()));
                  });
}

int32_t distwrap_recv_object_list(uint64_t count, int32_t encoding,
                                  distwrap_peer src,
                                  const distwrap_op_options* options,
                                  distwrap_list* list, distwrap_error* error) {
  if (list != nullptr) *list = nullptr;
  constexpr const char* kCall = "recv_object_list";
  return exchange(
      kCall, encoding, options, error, [&](Exchange& x) -> absl::Status {
        const distwrap::Peer peer = x.peer(src);
        if (!x.refused().ok()) return x.refused();
        absl::Status good = check_count(kCall, count);
        if (!good.ok()) return good;
        std::vector<Object> all(count);
        absl::Status ended =
            distwrap::recv_object_list(absl::MakeSpan(all), peer, x.options());
        return ended.ok() ? x.give(all, list) : ended;
      });
}
