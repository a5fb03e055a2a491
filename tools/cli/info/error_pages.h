// The pages about errors, one for each reason of abi/reasons.def, and their
// index. The texts are in base/reason_pages.def; the example is a line that was
// really printed (info/examples.def).
//
// Threads: pure functions.
//
//   if (const ErrorPage* page = find_error_page("DW-0062"))
//     std::fputs(to_text(*page).c_str(), stdout);
#ifndef DISTWRAP_TOOLS_CLI_INFO_ERROR_PAGES_H_
#define DISTWRAP_TOOLS_CLI_INFO_ERROR_PAGES_H_

#include "json_value.h"

#include <absl/strings/string_view.h>

#include <string>
#include <vector>

namespace distwrap::cli {

struct ErrorPage {
  std::string number;  // "DW-0062"
  std::string reason;  // "kPeerLost"
  std::string name;    // "PEER_LOST", as in DW_REASON_PEER_LOST
  std::string code, python, summary, advice = {}, meaning = {};
  std::vector<std::string> causes = {}, look = {}, settings = {};
  std::string example = {};  // empty when no code makes this error yet
};

const std::vector<ErrorPage>& error_pages();

// Finds a page by its number, also without DW- and zeros, or by its reason in
// C++ or in C; null when there is none.
const ErrorPage* find_error_page(absl::string_view word);

std::string to_text(const ErrorPage& page);
std::string to_markdown(const ErrorPage& page);
JsonObject to_json(const ErrorPage& page);

// The index: a few words for each page.
std::string error_index_text();
std::string error_index_markdown();
JsonArray error_index_json();

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_INFO_ERROR_PAGES_H_
