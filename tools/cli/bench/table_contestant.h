// A backend without distwrap: calls go straight into its table.
//
// What a call through distwrap takes longer than this is what distwrap costs.
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
  // Collective. `setup.name` is its name; for a backend that lacks collectives
  // the table is that of the decorator that adds them.
  static absl::StatusOr<std::unique_ptr<TableContestant>> make(
      plugin::BackendPtr backend, const Setup& setup);
  ~TableContestant() override;
  TableContestant(const TableContestant&) = delete;
  TableContestant& operator=(const TableContestant&) = delete;

  std::string name() const override { return name_; }
  // Of rings none: the caller of each part waits for it.
  absl::StatusOr<std::unique_ptr<Call>> prepare(Case& c) override;

  // What one call of the case consists of, each ended before the next; empty
  // where there is none. Borrows the case.
  static std::vector<dw_op> ops_of(const Case& c);

 private:
  TableContestant(std::string name,
                  std::shared_ptr<comm::BackendInstance> backend)
      : name_(std::move(name)), backend_(std::move(backend)) {}

  std::string name_;
  std::shared_ptr<comm::BackendInstance> backend_;
  dw_comm* comm_ = nullptr;
  uint64_t seq_ = 0;  // of the last collective
};

// By the backend's name.
absl::StatusOr<std::unique_ptr<Contestant>> make_table_contestant(
    absl::string_view backend, const Setup& setup);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_TABLE_CONTESTANT_H_
