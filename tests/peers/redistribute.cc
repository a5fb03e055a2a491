#include "redistribute.h"

#include "distwrap/distwrap.h"
#include "distwrap/redistribute.h"

#include <absl/strings/str_cat.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace distwrap::peers {
namespace {

using bench::Operation;

// The name of a reduction in layouts; "" where they have none.
std::string partial_name(ReduceOp::Kind kind) {
  switch (kind) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kProduct:
      return "product";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kAvg:
      return "avg";
    default:
      return "";
  }
}

class Redistributing final : public bench::Contestant {
 public:
  Redistributing(std::string name, Session session)
      : name_(std::move(name)), session_(std::move(session)) {}
  Redistributing(const Redistributing&) = delete;
  Redistributing& operator=(const Redistributing&) = delete;
  ~Redistributing() override {
    mesh_ = DeviceMesh();
    session_.close().IgnoreError();
  }

  std::string name() const override { return name_; }

  absl::StatusOr<std::unique_ptr<bench::TimedCall>> prepare(
      bench::Case& c) override {
    const std::optional<Move> move = move_of(c);
    if (!move.has_value()) return std::unique_ptr<bench::TimedCall>();
    bind_session(session_);
    if (!mesh_) {
      absl::StatusOr<DeviceMesh> made =
          DeviceMesh::create({.sizes = {c.spec().ranks}});
      if (!made.ok()) return made.status();
      mesh_ = *std::move(made);
    }
    const auto from = Layout::parse(mesh_.shape(), move->from);
    const auto to = Layout::parse(mesh_.shape(), move->to);
    if (!from.ok()) return from.status();
    if (!to.ok()) return to.status();
    const auto plan =
        make_plan(move->shape, dtype_size(c.spec().dtype), **from, **to);
    if (!plan.ok()) return plan.status();
    auto made = Redistribution::prepare(mesh_, *plan, c.spec().dtype);
    if (!made.ok()) return made.status();
    return bench::make_call([prepared = *std::move(made), out = c.out(),
                             in = c.in()] { return prepared.run(out, in); });
  }

 private:
  struct Move {
    std::string from, to;
    std::vector<int64_t> shape;
  };
  // The move that does what the operation does.
  static std::optional<Move> move_of(const bench::Case& c) {
    const int64_t in = c.in().count(), out = c.out().count();
    const int64_t ranks = c.spec().ranks;
    const std::string partial = partial_name(c.spec().reduce);
    const std::string sum = absl::StrCat("P(", partial, ")");
    switch (c.spec().op) {
      case Operation::kAllReduce:
        if (partial.empty()) return std::nullopt;
        return Move{sum, "R", {in}};
      case Operation::kReduceScatter:
        if (partial.empty()) return std::nullopt;
        return Move{sum, "S(0)", {in}};
      case Operation::kAllGather:
        return Move{"S(0)", "R", {out}};
      case Operation::kAllToAll:
        return Move{"S(0)", "S(1)", {ranks, ranks, in / ranks}};
      default:
        return std::nullopt;
    }
  }

  const std::string name_;
  Session session_;
  DeviceMesh mesh_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<bench::Contestant>> make_redistribute(
    const bench::Setup& setup) {
  InitOptions options;
  options.backend = "shm";
  options.rank = setup.rank;
  options.world_size = setup.ranks;
  options.store = setup.store;
  options.timeout = options.init_timeout = setup.timeout;
  options.group_name = setup.name;
  absl::StatusOr<Session> session = Session::create(options);
  if (!session.ok()) return session.status();
  return std::make_unique<Redistributing>(setup.name, *std::move(session));
}

}  // namespace distwrap::peers
