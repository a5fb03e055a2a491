#include "bench/mpi/calls.h"

#include <climits>

#include <map>
#include <numeric>

namespace distwrap::bench::mpi {
namespace {

MPI_Op op_named(const std::string& name) {
  static const std::map<std::string, MPI_Op> ops = {{"sum", MPI_SUM},
                                                    {"product", MPI_PROD},
                                                    {"min", MPI_MIN},
                                                    {"max", MPI_MAX}};
  const auto found = ops.find(name);
  return found == ops.end() ? MPI_OP_NULL : found->second;
}

}  // namespace

MPI_Datatype type_named(const std::string& name) {
  static const std::map<std::string, MPI_Datatype> types = {
      {"u8", MPI_UINT8_T},   {"i8", MPI_INT8_T},    {"u16", MPI_UINT16_T},
      {"i16", MPI_INT16_T},  {"u32", MPI_UINT32_T}, {"i32", MPI_INT32_T},
      {"u64", MPI_UINT64_T}, {"i64", MPI_INT64_T},  {"f32", MPI_FLOAT},
      {"f64", MPI_DOUBLE}};
  const auto found = types.find(name);
  return found == types.end() ? MPI_DATATYPE_NULL : found->second;
}

std::vector<int> starts_of(const std::vector<int>& counts) {
  std::vector<int> starts(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), starts.begin(), 0);
  return starts;
}

std::function<int()> bind(const Request& request, Prepared& p, int rank,
                          int ranks) {
  const std::string op = request.op;
  const MPI_Datatype type = type_named(request.dtype);
  const MPI_Op reduce = op_named(request.reduce);
  const MPI_Comm world = MPI_COMM_WORLD;
  if (op == "barrier") return [=] { return MPI_Barrier(world); };
  if (type == MPI_DATATYPE_NULL) return nullptr;
  if (request.in_count > INT_MAX || request.out_count > INT_MAX) return nullptr;
  const int in_count = static_cast<int>(request.in_count);
  const int out_count = static_cast<int>(request.out_count);
  const int block = static_cast<int>(request.block);
  const int root = request.root;
  char* const in = p.in.data();
  char* const out = p.out.data();
  Prepared* const keeps = &p;

  if (op.rfind("win_", 0) == 0) return bind_window(request, p, rank, ranks);
  if (op == "broadcast") {
    char* const buffer = rank == root ? in : out;
    p.result = buffer;
    return [=] { return MPI_Bcast(buffer, out_count, type, root, world); };
  }
  if (op == "gather") {
    return [=] {
      return MPI_Gather(in, block, type, out, block, type, root, world);
    };
  }
  if (op == "scatter") {
    return [=] {
      return MPI_Scatter(in, block, type, out, block, type, root, world);
    };
  }
  if (op == "all_gather") {
    return
        [=] { return MPI_Allgather(in, block, type, out, block, type, world); };
  }
  if (op == "all_to_all") {
    return
        [=] { return MPI_Alltoall(in, block, type, out, block, type, world); };
  }
  if (op == "gather_v") {
    return [=] {
      return MPI_Gatherv(in, in_count, type, out, keeps->out_counts.data(),
                         keeps->out_starts.data(), type, root, world);
    };
  }
  if (op == "scatter_v") {
    return [=] {
      return MPI_Scatterv(in, keeps->in_counts.data(), keeps->in_starts.data(),
                          type, out, out_count, type, root, world);
    };
  }
  if (op == "all_gather_v") {
    return [=] {
      return MPI_Allgatherv(in, in_count, type, out, keeps->out_counts.data(),
                            keeps->out_starts.data(), type, world);
    };
  }
  if (op == "all_to_all_v") {
    return [=] {
      return MPI_Alltoallv(in, keeps->in_counts.data(), keeps->in_starts.data(),
                           type, out, keeps->out_counts.data(),
                           keeps->out_starts.data(), type, world);
    };
  }
  if (op == "ring" && ranks > 1) {
    const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    return [=] {
      return MPI_Sendrecv(in, in_count, type, right, 0, out, out_count, type,
                          left, 0, world, MPI_STATUS_IGNORE);
    };
  }
  if (op == "send_recv" && ranks > 1) {
    const int other = rank ^ 1;
    const bool first = rank % 2 == 0;
    return [=] {
      for (int half = 0; half < 2; ++half) {
        const int code = first == (half == 0)
                             ? MPI_Send(in, in_count, type, other, 0, world)
                             : MPI_Recv(out, out_count, type, other, 0, world,
                                        MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS) return code;
      }
      return MPI_SUCCESS;
    };
  }

  if (reduce == MPI_OP_NULL) return nullptr;
  if (op == "reduce") {
    return [=] {
      return MPI_Reduce(in, out, in_count, type, reduce, root, world);
    };
  }
  if (op == "all_reduce") {
    return
        [=] { return MPI_Allreduce(in, out, in_count, type, reduce, world); };
  }
  if (op == "reduce_scatter") {
    return [=] {
      return MPI_Reduce_scatter_block(in, out, block, type, reduce, world);
    };
  }
  if (op == "reduce_scatter_v") {
    return [=] {
      return MPI_Reduce_scatter(in, out, keeps->in_counts.data(), type, reduce,
                                world);
    };
  }
  if (op == "scan") {
    return [=] { return MPI_Scan(in, out, in_count, type, reduce, world); };
  }
  if (op == "exscan") {
    return [=] { return MPI_Exscan(in, out, in_count, type, reduce, world); };
  }
  return nullptr;
}

}  // namespace distwrap::bench::mpi
