// The list of operators that this process has.
#ifndef DISTWRAP_TOOLS_TENSOR_OPERATOR_PAGES_H_
#define DISTWRAP_TOOLS_TENSOR_OPERATOR_PAGES_H_

#include <set>
#include <string>

namespace distwrap::tools {

enum class Form { kText, kJson, kMarkdown };

// All operators but the hidden ones: schema, element types, the name in
// PyTorch, devices that have a kernel.
std::string operator_pages(Form form, const std::set<std::string>& hidden);

}  // namespace distwrap::tools

#endif  // DISTWRAP_TOOLS_TENSOR_OPERATOR_PAGES_H_
