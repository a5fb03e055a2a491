// A backend without distwrap: calls go directly into its table.
//
// The difference between a call through distwrap and such a call is the cost of
// distwrap.
// Threads: used by one. Ownership: a call borrows its Case and Contestant.
//
//   auto table = make_table_contestant("loopback", setup);
#ifndef DISTWRAP_TOOLS_CLI_BENCH_TABLE_CONTESTANT_H_
#define DISTWRAP_TOOLS_CLI_BENCH_TABLE_CONTESTANT_H_

#include "bench/contestant.h"
#include "comm/backend_instance.h"

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <memory>
#include <string>
#include <vector>

namespace distwrap::bench {

class TableContestant : public Contestant {
 public:
  // Collective. `setup.name` is its name. For a backend that lacks collectives,
  // the table is that of the decorator that adds them.
  static absl::StatusOr<std::unique_ptr<TableContestant>> make(
      plugin::BackendPtr backend, const Setup& setup);
  ~TableContestant() override;
  TableContestant(const TableContestant&) = delete;
  TableContestant& operator=(const TableContestant&) = delete;

  std::string name() const override { return name_; }
  // Null for rings, because the caller of each part waits for it.
  absl::StatusOr<std::unique_ptr<TimedCall>> prepare(Case& c) override;

  // The operations of one call of the case, each of which ends before the next;
  // empty when there are none. Borrows the case.
  static std::vector<dw_op> ops_of(const Case& c);

 private:
  TableContestant(std::string name,
                  std::shared_ptr<comm::BackendInstance> backend)
      : name_(std::move(name)), backend_(std::move(backend)) {}

  std::string name_;
  std::shared_ptr<comm::BackendInstance> backend_;
  dw_comm* comm_ = nullptr;
  uint64_t seq_ = 0;  // number of the last collective
};

// Makes the contestant of a backend by its name.
absl::StatusOr<std::unique_ptr<Contestant>> make_table_contestant(
    absl::string_view backend, const Setup& setup);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_TABLE_CONTESTANT_H_
