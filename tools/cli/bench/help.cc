#include "bench/help.h"

#include "bench/operation.h"

#include <absl/strings/str_cat.h>

namespace distwrap::bench {
namespace {

constexpr size_t kWidth = 78;

std::string operations() {
  std::string text = "Operations:", line;
  const auto add = [&](absl::string_view word) {
    if (line.size() + 1 + word.size() > kWidth) {
      absl::StrAppend(&text, line, "\n ");
      line.clear();
    }
    absl::StrAppend(&line, " ", word);
  };
  line.reserve(kWidth);
  for (Operation op : all_operations()) add(operation_name(op));
  add("all");
  return absl::StrCat(text, line, "\n");
}

}  // namespace

std::string list_of(const std::vector<ContestantKind>& kinds) {
  std::string text;
  for (const ContestantKind& kind : kinds) {
    absl::StrAppend(&text, "  ", kind.name, ": ", kind.summary,
                    kind.missing.empty()
                        ? ""
                        : absl::StrCat(" (not here: ", kind.missing, ")"),
                    "\n");
  }
  return text;
}

std::string help_footer(const std::vector<ContestantKind>& kinds) {
  std::string text = operations();
  absl::StrAppend(&text, "\n");
  if (!kinds.empty()) {
    absl::StrAppend(&text, "To compare with (--vs):\n", list_of(kinds), "\n");
  }
  absl::StrAppend(
      &text,
      "Patterns: linear, uniform, zipf[:exponent], one-hot[:rank], or a file "
      "with a line for\neach sender and a number for each receiver, of which "
      "only proportions matter; the\nlargest sender gives the bytes.\n\n"
      "Bytes are those of the larger buffer of a rank. algbw is bytes / p50, "
      "busbw what the\nbusiest link carries; with counts, without what a rank "
      "gives to itself. All results\nare checked, outside of what is timed.\n\n"
      "Examples:\n"
      "  distwrap bench\n"
      "  distwrap bench all_reduce -b 8 -e 64M -f 2 --ranks 4 --limit\n"
      "  distwrap bench all --backend gloo --rounds 21 --plot result.svg\n"
      "  distwrap bench all_to_all_v --pattern zipf:1.2 --cold\n"
      "  distwrap bench --overhead\n"
      "  distwrap bench all_reduce --vs openmpi,mpich --pin\n"
      "  distwrap bench all --json-file new.json --compare old.json\n"
      "  distwrap run -n 2 distwrap bench all_reduce --sizes 8,4K,1M\n\n"
      "Exit code: 0; 1 when it failed, a result was wrong or --compare found "
      "one slower;\n2 for bad options.");
  return text;
}

}  // namespace distwrap::bench
