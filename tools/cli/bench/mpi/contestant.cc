#include "bench/mpi/contestant.h"

#include "bench/mpi/process.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

namespace distwrap::bench::mpi {
namespace {

using Piece = MpiProcess::Piece;

template <size_t n>
void copy_name(absl::string_view name, char (&to)[n]) {
  std::copy_n(name.data(), std::min(name.size(), n - 1), to);
}

Piece bytes_of(const std::vector<int64_t>& counts) {
  return {reinterpret_cast<const char*>(counts.data()),
          counts.size() * sizeof(int64_t)};
}

Piece bytes_of(const TensorView& view) {
  return {static_cast<const char*>(view.data()),
          static_cast<size_t>(view.count() * dtype_size(view.dtype()))};
}

Request request_of(Ask what, int32_t id) {
  Request request;
  request.ask = what;
  request.id = id;
  return request;
}

class MpiCall final : public TimedCall {
 public:
  MpiCall(MpiProcess& process, Case& c, int32_t id)
      : process_(process), case_(c), id_(id) {}
  ~MpiCall() override {
    process_.ask(request_of(Ask::kDrop, id_)).status().IgnoreError();
  }

  absl::Status repeat(int64_t times) override {
    Request request = request_of(Ask::kRepeat, id_);
    request.times = times;
    return process_.ask(request).status();
  }

  absl::Status timed(const Loop& loop, absl::Span<int64_t> ns) override {
    Request request = request_of(Ask::kTimed, id_);
    request.times = static_cast<int64_t>(ns.size());
    request.batch = loop.batch;
    request.start_at = loop.start_at;
    return copy_into(process_.ask(request), ns.data(),
                     ns.size() * sizeof(int64_t));
  }

  absl::Status spoil() override {
    return process_.ask(request_of(Ask::kSpoil, id_)).status();
  }

  absl::Status fetch() override {
    const TensorView out = case_.out();
    return copy_into(process_.ask(request_of(Ask::kFetch, id_)), out.data(),
                     bytes_of(out).size());
  }

 private:
  static absl::Status copy_into(const absl::StatusOr<std::string>& reply,
                                void* to, size_t bytes) {
    if (!reply.ok()) return reply.status();
    if (reply->size() != bytes) {
      return absl::InternalError(absl::StrCat(
          "a reply of ", reply->size(), " bytes where ", bytes, " were due"));
    }
    if (bytes > 0) std::memcpy(to, reply->data(), bytes);
    return absl::OkStatus();
  }

  MpiProcess& process_;
  Case& case_;
  int32_t id_;
};

class MpiContestant final : public Contestant {
 public:
  MpiContestant(std::string name, std::unique_ptr<MpiProcess> process)
      : name_(std::move(name)), process_(std::move(process)) {}

  std::string name() const override { return name_; }

  absl::StatusOr<std::unique_ptr<TimedCall>> prepare(Case& c) override {
    const Spec& spec = c.spec();
    const Layout& layout = c.layout();
    Request request = request_of(Ask::kPrepare, next_id_++);
    copy_name(operation_name(spec.op), request.op);
    copy_name(dtype_name(spec.dtype), request.dtype);
    copy_name(reduce_op_name(spec.reduce), request.reduce);
    request.root = spec.root;
    request.depth = spec.depth;
    request.in_count = layout.in_count;
    request.out_count = layout.out_count;
    request.block = layout.block;
    request.width = dtype_size(spec.dtype);
    std::vector<int64_t> in_counts = layout.in_counts;
    std::vector<int64_t> out_counts = layout.out_counts;
    if (!in_counts.empty() || !out_counts.empty()) {
      request.counts = spec.ranks;
      in_counts.resize(static_cast<size_t>(spec.ranks));
      out_counts.resize(static_cast<size_t>(spec.ranks));
    }
    const auto reply =
        process_->ask(request, {bytes_of(in_counts), bytes_of(out_counts),
                                bytes_of(c.in()), bytes_of(c.out())});
    if (absl::IsUnimplemented(reply.status()))
      return std::unique_ptr<TimedCall>();
    if (!reply.ok()) return reply.status();
    return std::make_unique<MpiCall>(*process_, c, request.id);
  }

 private:
  std::string name_;
  std::unique_ptr<MpiProcess> process_;
  int32_t next_id_ = 0;
};

ContestantKind contestant_kind(const MpiKind& kind,
                               const std::string& summary) {
  return {
      kind.name, summary, missing(kind),
      [kind](
          const Setup& setup) -> absl::StatusOr<std::unique_ptr<Contestant>> {
        SideChannel side(setup.store, absl::StrCat("mpi/", setup.name),
                         setup.rank, setup.ranks,
                         setup.timeout + absl::Seconds(30));
        auto process = MpiProcess::start(kind, side, setup.timeout);
        if (!process.ok()) {
          return absl::Status(
              process.status().code(),
              absl::StrCat(setup.name, ": ", process.status().message()));
        }
        return std::make_unique<MpiContestant>(setup.name, *std::move(process));
      }};
}

}  // namespace

std::vector<ContestantKind> kinds() {
  // Each process pins itself in the same way as the ranks of distwrap.
  const MpiKind openmpi = {"openmpi",
                           "mpirun.openmpi",
                           {"--oversubscribe", "--bind-to", "none"},
                           {},
                           "mpi_peer_openmpi",
                           "libopenmpi-dev",
                           "openmpi-bin"};
  const MpiKind mpich = {"mpich", "mpiexec.mpich",  {"-bind-to", "none"},
                         {},      "mpi_peer_mpich", "libmpich-dev",
                         "mpich"};
  MpiKind openmpi_sm = openmpi;
  openmpi_sm.name = "openmpi_sm";
  openmpi_sm.environment.emplace_back("OMPI_MCA_coll_sm_priority=100");
  MpiKind mpich_rg = mpich;
  mpich_rg.name = "mpich_rg";
  for (const char* op : {"BARRIER", "BCAST", "REDUCE", "ALLREDUCE"}) {
    mpich_rg.environment.push_back(absl::StrCat(
        "MPIR_CVAR_", op, "_POSIX_INTRA_ALGORITHM=release_gather"));
  }
  // Effective from the first call, which is not timed.
  mpich_rg.environment.emplace_back("MPIR_CVAR_POSIX_NUM_COLLS_THRESHOLD=0");
  return {
      contestant_kind(openmpi, "Open MPI as it comes"),
      contestant_kind(openmpi_sm, "Open MPI, collectives in shared memory"),
      contestant_kind(mpich, "MPICH as it comes"),
      contestant_kind(mpich_rg, "MPICH, four operations by release and gather"),
  };
}

}  // namespace distwrap::bench::mpi
