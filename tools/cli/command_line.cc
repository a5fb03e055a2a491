#include "command_line.h"

#include "base/nearest.h"

#include <CLI/CLI.hpp>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <cstdio>

namespace distwrap::cli {
namespace {

OptionText text_of(const CLI::Option& option) {
  OptionText text;
  for (const std::string& name : option.get_snames())
    text.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames())
    text.names.push_back("--" + name);
  if (option.get_positional()) text.positional = option.get_name(true);
  text.is_required = option.get_required();
  if (option.get_items_expected_max() > 0) text.value = option.get_type_name();
  text.fallback = option.get_default_str();
  if (option.get_group() != "Options") text.group = option.get_group();
  text.help = option.get_description();
  return text;
}

// The values into which the options of a table are parsed.
struct Slots {
  std::map<std::string, std::string> values;
  std::map<std::string, bool> flags;
};

std::string key_of(const OptionRow& row) {
  const std::string names = row.names;
  return names.substr(names.rfind(',') + 1);
}

void describe(const CommandRow& row, CLI::App& app, Slots& slots) {
  for (const OptionRow& option : row.options) {
    if (option.value == nullptr) {
      app.add_flag(option.names, slots.flags[key_of(option)], option.help);
    } else {
      app.add_option(option.names, slots.values[key_of(option)], option.help)
          ->type_name(option.value);
    }
  }
  app.footer(row.footer);
}

// A word that was not understood explains more than any other error.
std::string complaint(const CLI::App& app, const CLI::ParseError& error) {
  const Words extra = app.remaining();
  // Behind its first word, a program of `run` has options of its own.
  if (!extra.empty() && absl::StartsWith(extra.front(), "-") &&
      extra.front() != "--")
    return unknown_option(app, extra.front());
  const std::string see = absl::StrCat("; see ", app.get_name(), " --help");
  if (!extra.empty() &&
      error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError))
    return absl::StrCat("'", extra.front(), "' is too much", see);
  return absl::StrCat(error.what(), see);
}

std::string title(const CommandRow& row) {
  return absl::StrCat("distwrap ", row.name);
}

}  // namespace

CommandText text_of(const CLI::App& app) {
  CommandText text;
  text.name = app.get_name();
  text.about = app.get_description();
  text.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options())
    text.options.push_back(text_of(*option));
  return text;
}

std::string unknown_option(const CLI::App& app, absl::string_view typed) {
  Words known;
  for (const OptionText& option : text_of(app).options)
    known.insert(known.end(), option.names.begin(), option.names.end());
  const absl::string_view name = typed.substr(0, typed.find('='));
  return absl::StrCat("unknown option ", name, "; did you mean ",
                      base::nearest(name, known), "? See ", app.get_name(),
                      " --help");
}

std::optional<int> parse(CLI::App& app, const Words& words) {
  try {
    Words reversed(words.rbegin(), words.rend());  // CLI11 expects a reversed
                                                   // vector
    app.parse(std::move(reversed));
    return std::nullopt;
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(),
                 complaint(app, error).c_str());
    return kUsage;
  }
}

CommandText text_of(const CommandRow& row) {
  Slots slots;
  CLI::App app(row.about, title(row));
  describe(row, app, slots);
  return text_of(app);
}

std::optional<std::string> Typed::value(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

std::optional<int> parse(const CommandRow& row, const Words& words,
                         Typed* typed) {
  Slots slots;
  CLI::App app(row.about, title(row));
  describe(row, app, slots);
  if (const std::optional<int> code = parse(app, words)) return code;
  for (const auto& [name, is_set] : slots.flags)
    if (is_set) typed->values_.emplace(name, "");
  for (const auto& [name, value] : slots.values)
    if (app.count(name) > 0) typed->values_.emplace(name, value);
  return std::nullopt;
}

}  // namespace distwrap::cli
