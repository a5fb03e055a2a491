// Rank 0 sends its settings to all ranks; all ranks return their results.
#include <distwrap/distwrap.h>

#include <iostream>
#include <vector>

namespace dw = distwrap;

absl::Status run() {
  if (auto session = dw::init_process_group(); !session.ok())
    return session.status();
  const int rank = dw::get_rank();

  std::vector<dw::Object> settings(1);
  if (rank == 0) settings[0] = dw::Object::map({{"rate", 0.5}, {"layers", 3}});
  absl::Status status = dw::broadcast_object_list(absl::MakeSpan(settings));
  if (!status.ok()) return status;

  const double rate = settings[0].at("rate").to_double().value_or(0);
  auto results = dw::gather_object(
      dw::Object::map({{"rank", rank}, {"loss", rate / (rank + 1)}}));
  if (!results.ok()) return results.status();
  for (const dw::Object& result : *results) std::cout << result << "\n";

  return dw::destroy_process_group();
}

int main() {
  const absl::Status status = run();
  if (!status.ok()) std::cerr << status.message() << "\n";
  return status.ok() ? 0 : 1;
}
