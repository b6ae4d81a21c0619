#include <fmt/format.h>

#include <algorithm>

#include "base/fault.h"
#include "base/text.h"
#include "settings/option_value.h"
#include "settings/settings_reader.h"

namespace rankshim {

void SettingsReader::check_subcommand() {
  const auto& arguments = invocation_.arguments;
  const auto usage = [&](std::string what, std::string fix) {
    reject(exit_code::usage, {std::move(what), {}, std::move(fix)});
  };
  const bool takes_command = invocation_.subcommand == Subcommand::run ||
                             invocation_.subcommand == Subcommand::explain ||
                             invocation_.subcommand == Subcommand::doctor;
  const std::string_view first =
      takes_command && !arguments.empty() ? std::string_view(arguments[0]) : std::string_view{};
  if (first.starts_with("--") && find_option(first.substr(2, first.substr(2).find('='))) != nullptr) {
    usage(fmt::format("the command begins with {}, which is an option of rankshim", first),
          "give the options before --, and the command after it");
  }
  switch (invocation_.subcommand) {
    case Subcommand::run:
      if (arguments.empty() && rejected_.faults.empty()) {
        usage("no command was given",
              "name one: rankshim [OPTIONS] [--] COMMAND [ARG...], or see rankshim --help");
      }
      break;
    case Subcommand::env:
    case Subcommand::wait:
    case Subcommand::status:
    case Subcommand::demo:
    case Subcommand::version:
      if (!arguments.empty())
        usage(fmt::format("unexpected argument {}", in_quotes(arguments[0])), "see rankshim --help");
      break;
    case Subcommand::platforms:
      if (!arguments.empty() && arguments[0] == "check") {
        if (arguments.size() != 2) usage("platforms check needs one file", "rankshim platforms check FILE");
      } else if (arguments.size() > 1)
        usage(fmt::format("unexpected argument {}", in_quotes(arguments[1])), "name one profile");
      break;
    case Subcommand::install:
      if (arguments.size() != 1 || arguments[0].empty())
        usage("install needs one folder", "rankshim install DIR");
      break;
    case Subcommand::explain:
    case Subcommand::doctor:
    case Subcommand::licenses:
      break;
    case Subcommand::help:
      check_help();
      break;
  }
  check_format();
}

void SettingsReader::check_help() {
  const auto& arguments = invocation_.arguments;
  if (arguments.empty()) return;
  std::vector<std::string_view> known;
  for (const Usage& usage : usages)
    if (!usage.name.empty()) known.push_back(usage.name);
  if (arguments.size() == 1 && std::ranges::find(known, arguments[0]) != known.end()) return;
  reject(exit_code::usage, {fmt::format("there is no subcommand {}{}", in_quotes(arguments[0]),
                                        and_nearest(nearest(arguments[0], known))),
                            {},
                            "see rankshim --help"});
}

void SettingsReader::check_format() {
  auto& format = invocation_.settings[Option::format];
  std::string_view choices;
  if (invocation_.subcommand == Subcommand::explain) choices = "text|json";
  if (invocation_.subcommand == Subcommand::env) choices = "sh|json|dotenv";
  if (!format) {
    if (!choices.empty())
      format = Setting{{std::string(choices.substr(0, choices.find('|'))), Origin::fallback, ""}, {}};
    return;
  }
  if (is_one_of(format->text, choices)) return;
  reject(exit_code::usage,
         {choices.empty() ? "--format is for explain and env"
                          : fmt::format("--format={} is not one of {}{}", in_quotes(format->text),
                                        with_commas(choices), and_nearest_choice(format->text, choices)),
          {"--format"},
          choices.empty() ? "leave it out" : "correct --format"});
}

}  // namespace rankshim
