#include "bench/objects/cost.h"

#include "bench/json.h"
#include "bench/text_table.h"
#include "bench/turns.h"
#include "distwrap/distwrap.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_split.h>

#include <fstream>
#include <utility>

namespace distwrap::bench {
namespace {

constexpr int kCalls = 100;  // calls in a block

cli::JsonObject ratio_json(const Ratio& ratio) {
  return {{"median", ratio.median}, {"low", ratio.low}, {"high", ratio.high}};
}

std::string text_of(const Ratio& ratio) {
  return absl::StrFormat("%.3f [%.3f, %.3f]", ratio.median, ratio.low,
                         ratio.high);
}

}  // namespace

absl::Status measure_objects(const std::string& backend, int64_t bytes,
                             int rounds, const std::string& path) {
  const absl::StatusOr<Session> session =
      init_process_group({.backend = backend});
  if (!session.ok()) return session.status();
  const size_t each = static_cast<size_t>(bytes);
  const Object object = Object::bytes(std::string(each, 'x'));
  const std::vector<uint8_t> in(each, 'x');
  std::vector<uint8_t> out(each * static_cast<size_t>(get_world_size()));
  const Timed objects = [&] { return all_gather_object(object).status(); };
  const Timed raw = [&] {
    absl::Status status;
    for (int i = 0; status.ok() && i < 2; ++i)
      status = all_gather_into_tensor(TensorView(out), TensorView(in)).status();
    return status;
  };
  const Timed contestants[] = {objects, raw, raw};
  auto times = take_turns(contestants, rounds, kCalls);
  if (!times.ok()) return times.status();
  const ObjectBlocks blocks{.objects = std::move((*times)[0]),
                            .raw = std::move((*times)[1]),
                            .again = std::move((*times)[2])};
  if (get_rank() == 0) std::ofstream(path) << write_blocks(blocks);
  return destroy_process_group();
}

std::string write_blocks(const ObjectBlocks& blocks) {
  std::string text;
  for (size_t i = 0; i < blocks.objects.size(); ++i)
    absl::StrAppend(&text, blocks.objects[i], " ", blocks.raw[i], " ",
                    blocks.again[i], "\n");
  return text;
}

absl::StatusOr<ObjectBlocks> read_blocks(absl::string_view text) {
  ObjectBlocks blocks;
  for (const absl::string_view line :
       absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    double us[3];
    for (size_t i = 0; i < 3; ++i)
      if (words.size() != 3 || !absl::SimpleAtod(words[i], &us[i]))
        return absl::DataLossError("the ranks reported no times");
    blocks.objects.push_back(us[0]);
    blocks.raw.push_back(us[1]);
    blocks.again.push_back(us[2]);
  }
  if (!blocks.objects.empty()) return blocks;
  return absl::DataLossError("the ranks reported no times");
}

std::string show_cost(const ObjectCost& cost) {
  const ObjectBlocks& blocks = cost.blocks;
  return absl::StrCat(
      "Objects of ", cost.bytes, " bytes, ", cost.ranks, " ranks over ",
      cost.backend, ", ", blocks.objects.size(), " rounds in turns\n",
      text_table({{"", 1}, {"p50 us", 1}, {"/ two all_gathers", 1}},
                 {{"", "", ""},
                  {"all_gather_object", format_number(median(blocks.objects)),
                   text_of(paired_ratio(blocks.objects, blocks.raw))},
                  {"two all_gathers", format_number(median(blocks.raw)), "-"},
                  {"the same again", format_number(median(blocks.again)),
                   text_of(paired_ratio(blocks.again, blocks.raw))}}));
}

std::string cost_json(const ObjectCost& cost) {
  const ObjectBlocks& blocks = cost.blocks;
  return json_text(cli::JsonObject{
      {"schema", 1},
      {"backend", cost.backend},
      {"ranks", cost.ranks},
      {"bytes", cost.bytes},
      {"rounds", static_cast<int64_t>(blocks.objects.size())},
      {"all_gather_object_us", median(blocks.objects)},
      {"two_all_gathers_us", median(blocks.raw)},
      {"ratio", ratio_json(paired_ratio(blocks.objects, blocks.raw))},
      {"control", ratio_json(paired_ratio(blocks.again, blocks.raw))}});
}

}  // namespace distwrap::bench
