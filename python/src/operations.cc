// The operations: one function for each, with the arguments of the same name in
// torch.distributed.
#include "call.h"
#include "docs.h"
#include "lists.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace distwrap_python {
namespace {

using H = nb::handle;

nb::object barrier(H group, bool async_op, H /*device_ids*/, H timeout,
                   H label) {
  OperationCall call("barrier", group, async_op, timeout, label);
  return call.run(
      [](auto* o, auto* w, auto* e) { return distwrap_barrier(o, w, e); });
}

void monitored_barrier(H group, H timeout, bool /*wait_all_ranks*/, H label) {
  Options options("monitored_barrier", group, timeout, label);
  wait_in(options.group(), [&](auto* e) {
    return distwrap_monitored_barrier(options.get(), e);
  });
}

nb::object all_reduce(H tensor, H op, H group, bool async_op, H timeout,
                      H label) {
  OperationCall call("all_reduce", group, async_op, timeout, label);
  const Reduction& by = call.reduction(op);
  const distwrap_tensor* const t =
      call.tensor(tensor, "tensor", Use::kWritten, by.elements());
  const int32_t kind = by.kind;
  return call.run([=](auto* o, auto* w, auto* e) {
    return distwrap_all_reduce(t, t, kind, o, w, e);
  });
}

nb::object broadcast(H tensor, H src, H group, bool async_op, H group_src,
                     H timeout, H label) {
  OperationCall call("broadcast", group, async_op, timeout, label);
  const distwrap_peer root = call.peer("src", src, group_src);
  const distwrap_tensor* const t =
      call.tensor_of_root(tensor, "tensor", root, true);
  return call.run([=](auto* o, auto* w, auto* e) {
    return distwrap_broadcast(t, t, root, o, w, e);
  });
}

nb::object reduce(H tensor, H dst, H op, H group, bool async_op, H group_dst,
                  H timeout, H label) {
  OperationCall call("reduce", group, async_op, timeout, label);
  const distwrap_peer root = call.peer("dst", dst, group_dst);
  const Reduction& by = call.reduction(op);
  const distwrap_tensor* const t =
      call.tensor_of_root(tensor, "tensor", root, false, by.elements());
  const int32_t kind = by.kind;
  return call.run([=](auto* o, auto* w, auto* e) {
    return distwrap_reduce(t, t, root, kind, o, w, e);
  });
}

template <class F>
nb::object scanned(const char* name, H output, H input, H op, H group,
                   bool async_op, H timeout, H label, F f) {
  OperationCall call(name, group, async_op, timeout, label);
  const Reduction& by = call.reduction(op);
  const distwrap_tensor* const out =
      call.tensor(output, "output", Use::kWritten, by.elements());
  const distwrap_tensor* const in =
      call.tensor(input, "input", Use::kRead, by.elements());
  const int32_t kind = by.kind;
  return call.run(
      [=](auto* o, auto* w, auto* e) { return f(out, in, kind, o, w, e); });
}

nb::object scan(H output, H input, H op, H group, bool async_op, H timeout,
                H label) {
  return scanned("scan", output, input, op, group, async_op, timeout, label,
                 distwrap_scan);
}

nb::object exscan(H output, H input, H op, H group, bool async_op, H timeout,
                  H label) {
  return scanned("exscan", output, input, op, group, async_op, timeout, label,
                 distwrap_exscan);
}

nb::object reduce_scatter_tensor(H output, H input, H op, H group,
                                 bool async_op, H timeout, H label) {
  return scanned("reduce_scatter_tensor", output, input, op, group, async_op,
                 timeout, label, distwrap_reduce_scatter_tensor);
}

nb::object all_gather(H tensor_list, H tensor, H group, bool async_op,
                      H timeout, H label) {
  OperationCall call("all_gather", group, async_op, timeout, label);
  const Tensors& outs = call.list(tensor_list, "tensor_list", Use::kWritten);
  const distwrap_tensor* const in = call.tensor(tensor, "tensor", Use::kRead);
  return call.run([&outs, in](auto* o, auto* w, auto* e) {
    return distwrap_all_gather(outs.data(), outs.size(), in, o, w, e);
  });
}

nb::object all_gather_into_tensor(H output, H input, H group, bool async_op,
                                  H timeout, H label) {
  OperationCall call("all_gather_into_tensor", group, async_op, timeout, label);
  const distwrap_tensor* const out =
      call.tensor(output, "output_tensor", Use::kWritten);
  const distwrap_tensor* const in =
      call.tensor(input, "input_tensor", Use::kRead);
  return call.run([=](auto* o, auto* w, auto* e) {
    return distwrap_all_gather_into_tensor(out, in, o, w, e);
  });
}

nb::object all_gather_v(H output, H input, H counts, H group, bool async_op,
                        H timeout, H label) {
  OperationCall call("all_gather_v", group, async_op, timeout, label);
  const Rows rows("all_gather_v", "counts", counts);
  const distwrap_tensor* const out =
      call.tensor(output, "output", Use::kWritten, Elements::kMoved, true);
  const distwrap_tensor* const in =
      call.tensor(input, "input", Use::kRead, Elements::kMoved, true);
  return call.run([&](auto* o, auto* w, auto* e) {
    return distwrap_all_gather_v(out, in, rows.data(), rows.rows.size(), o, w,
                                 e);
  });
}

nb::object reduce_scatter_v(H output, H input, H counts, H op, H group,
                            bool async_op, H timeout, H label) {
  OperationCall call("reduce_scatter_v", group, async_op, timeout, label);
  const Rows rows("reduce_scatter_v", "counts", counts);
  const Reduction& by = call.reduction(op);
  const distwrap_tensor* const out =
      call.tensor(output, "output", Use::kWritten, by.elements(), true);
  const distwrap_tensor* const in =
      call.tensor(input, "input", Use::kRead, by.elements(), true);
  const int32_t kind = by.kind;
  return call.run([&, kind](auto* o, auto* w, auto* e) {
    return distwrap_reduce_scatter_v(out, in, rows.data(), rows.rows.size(),
                                     kind, o, w, e);
  });
}

nb::object reduce_scatter(H output, H input_list, H op, H group, bool async_op,
                          H timeout, H label) {
  OperationCall call("reduce_scatter", group, async_op, timeout, label);
  const Reduction& by = call.reduction(op);
  const distwrap_tensor* const out =
      call.tensor(output, "output", Use::kWritten, by.elements());
  const Tensors& ins =
      call.list(input_list, "input_list", Use::kRead, by.elements());
  const int32_t kind = by.kind;
  return call.run([&ins, out, kind](auto* o, auto* w, auto* e) {
    return distwrap_reduce_scatter(out, ins.data(), ins.size(), kind, o, w, e);
  });
}

nb::object gather(H tensor, H gather_list, H dst, H group, bool async_op,
                  H group_dst, H timeout, H label) {
  OperationCall call("gather", group, async_op, timeout, label);
  const distwrap_peer root = call.peer("dst", dst, group_dst);
  const distwrap_tensor* const in = call.tensor(tensor, "tensor", Use::kRead);
  const Tensors& outs =
      call.list_or_none(gather_list, "gather_list", Use::kWritten);
  return call.run([=, &outs](auto* o, auto* w, auto* e) {
    return distwrap_gather(outs.data(), outs.size(), in, root, o, w, e);
  });
}

nb::object scatter(H tensor, H scatter_list, H src, H group, bool async_op,
                   H group_src, H timeout, H label) {
  OperationCall call("scatter", group, async_op, timeout, label);
  const distwrap_peer root = call.peer("src", src, group_src);
  const distwrap_tensor* const out =
      call.tensor(tensor, "tensor", Use::kWritten);
  const Tensors& ins =
      call.list_or_none(scatter_list, "scatter_list", Use::kRead);
  return call.run([=, &ins](auto* o, auto* w, auto* e) {
    return distwrap_scatter(out, ins.data(), ins.size(), root, o, w, e);
  });
}

nb::object gather_into_tensor(H output, H input, H dst, H counts, H group,
                              bool async_op, H group_dst, H timeout, H label) {
  OperationCall call("gather_into_tensor", group, async_op, timeout, label);
  const distwrap_peer root = call.peer("dst", dst, group_dst);
  const Rows rows("gather_into_tensor", "counts", counts);
  const distwrap_tensor* const out =
      call.tensor_or_none(output, "output", Use::kWritten, rows.given);
  const distwrap_tensor* const in =
      call.tensor(input, "input", Use::kRead, Elements::kMoved, rows.given);
  return call.run([&](auto* o, auto* w, auto* e) {
    return distwrap_gather_into_tensor(out, in, root, rows.data(),
                                       rows.rows.size(), o, w, e);
  });
}

nb::object scatter_tensor(H output, H input, H src, H counts, H group,
                          bool async_op, H group_src, H timeout, H label) {
  OperationCall call("scatter_tensor", group, async_op, timeout, label);
  const distwrap_peer root = call.peer("src", src, group_src);
  const Rows rows("scatter_tensor", "counts", counts);
  const distwrap_tensor* const out = call.tensor(
      output, "output", Use::kWritten, Elements::kMoved, rows.given);
  const distwrap_tensor* const in =
      call.tensor_or_none(input, "input", Use::kRead, rows.given);
  return call.run([&](auto* o, auto* w, auto* e) {
    return distwrap_scatter_tensor(out, in, root, rows.data(), rows.rows.size(),
                                   o, w, e);
  });
}

nb::object all_to_all(H output_tensor_list, H input_tensor_list, H group,
                      bool async_op, H timeout, H label) {
  OperationCall call("all_to_all", group, async_op, timeout, label);
  const Tensors& outs =
      call.list(output_tensor_list, "output_tensor_list", Use::kWritten);
  const Tensors& ins =
      call.list(input_tensor_list, "input_tensor_list", Use::kRead);
  return call.run([&outs, &ins](auto* o, auto* w, auto* e) {
    return distwrap_all_to_all(outs.data(), outs.size(), ins.data(), ins.size(),
                               o, w, e);
  });
}

nb::object all_to_all_single(H output, H input, H output_split_sizes,
                             H input_split_sizes, H group, bool async_op,
                             H timeout, H label) {
  OperationCall call("all_to_all_single", group, async_op, timeout, label);
  const Rows out_rows("all_to_all_single", "output_split_sizes",
                      output_split_sizes);
  const Rows in_rows("all_to_all_single", "input_split_sizes",
                     input_split_sizes);
  const distwrap_tensor* const out =
      call.tensor(output, "output", Use::kWritten, Elements::kMoved, true);
  const distwrap_tensor* const in =
      call.tensor(input, "input", Use::kRead, Elements::kMoved, true);
  return call.run([&](auto* o, auto* w, auto* e) {
    return distwrap_all_to_all_single(out, in, out_rows.data(),
                                      out_rows.rows.size(), in_rows.data(),
                                      in_rows.rows.size(), o, w, e);
  });
}

void send(H tensor, H dst, H group, int64_t tag, H group_dst, H timeout,
          H label) {
  OperationCall call("send", group, false, timeout, label);
  const distwrap_peer peer = call.peer("dst", dst, group_dst);
  const distwrap_tensor* const t = call.tensor(tensor, "tensor", Use::kRead);
  call.run([=](auto* o, auto* /*w*/, auto* e) {
    return distwrap_send(t, peer, tag, o, e);
  });
}

nb::object recv(H tensor, H src, H group, int64_t tag, H group_src, H timeout,
                H label) {
  OperationCall call("recv", group, false, timeout, label);
  const distwrap_peer peer = call.peer("src", src, group_src);
  const distwrap_tensor* const t = call.tensor(tensor, "tensor", Use::kWritten);
  const bool records = recording != nullptr;
  int32_t source = -1;
  call.run([&](auto* o, auto* /*w*/, auto* e) {
    return distwrap_recv(t, peer, tag, o, records ? nullptr : &source, e);
  });
  return records ? nb::none() : nb::cast(source);
}

// A message is started, unless a batch records it.
template <class Start, class Record>
nb::object started(OperationCall& call, Start start, Record record) {
  if (recording != nullptr)
    return call.run(
        [&](auto* o, auto* /*w*/, auto* e) { return record(o, e); });
  return call.run(start);
}

nb::object isend(H tensor, H dst, H group, int64_t tag, H group_dst, H timeout,
                 H label) {
  OperationCall call("isend", group, true, timeout, label);
  const distwrap_peer peer = call.peer("dst", dst, group_dst);
  const distwrap_tensor* const t = call.tensor(tensor, "tensor", Use::kRead);
  return started(
      call,
      [=](auto* o, auto* w, auto* e) {
        return distwrap_isend(t, peer, tag, o, w, e);
      },
      [=](auto* o, auto* e) { return distwrap_send(t, peer, tag, o, e); });
}

nb::object irecv(H tensor, H src, H group, int64_t tag, H group_src, H timeout,
                 H label) {
  OperationCall call("irecv", group, true, timeout, label);
  const distwrap_peer peer = call.peer("src", src, group_src);
  const distwrap_tensor* const t = call.tensor(tensor, "tensor", Use::kWritten);
  return started(
      call,
      [=](auto* o, auto* w, auto* e) {
        return distwrap_irecv(t, peer, tag, o, w, e);
      },
      [=](auto* o, auto* e) {
        return distwrap_recv(t, peer, tag, o, nullptr, e);
      });
}

// ops: (is_recv, tensor, peer, group_peer, group, tag) each.
nb::list batch_isend_irecv(nb::list ops, H timeout, H label) {
  constexpr const char* kCall = "batch_isend_irecv";
  Options options(kCall, nb::none(), timeout, label);
  std::vector<distwrap_p2p_op> messages;
  std::vector<std::unique_ptr<Held>> held;
  Groups groups;
  for (H item : ops) {
    const nb::tuple op = nb::borrow<nb::tuple>(item);
    const bool receives = nb::cast<bool>(op[0]);
    OperationCall call(kCall, op[4], true, nb::none(), nb::none());
    distwrap_p2p_op message = {};
    message.tensor =
        call.tensor(op[1], "tensor", receives ? Use::kWritten : Use::kRead);
    message.peer = call.peer("peer", op[2], op[3]);
    message.group = call.options().group();
    message.tag = nb::cast<int64_t>(op[5]);
    message.kind = receives ? DW_IRECV : DW_ISEND;
    messages.push_back(message);
    groups.push_back(message.group);
    held.push_back(call.take());
  }
  std::vector<distwrap_work> works(messages.size(), nullptr);
  wait_in(groups, [&](auto* e) {
    return distwrap_batch_isend_irecv(messages.data(), messages.size(),
                                      options.get(), works.data(), e);
  });
  nb::list all;
  for (size_t i = 0; i < works.size(); ++i) {
    const nb::tuple op = nb::borrow<nb::tuple>(nb::handle(ops[i]));
    all.append(make_work(works[i], std::move(held[i]), op[4],
                         messages[i].kind == DW_IRECV ? "irecv" : "isend"));
  }
  return all;
}

}  // namespace

void add_operations(nb::module_& m) {
  DISTWRAP_OPERATIONS(m);
  m.def("_batch_isend_irecv", &batch_isend_irecv, "ops"_a,
        "timeout"_a = nb::none(), "label"_a = nb::none());
}

}  // namespace distwrap_python
