#include "settings/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/fault.h"
#include "base/text.h"
#include "settings/option_value.h"
#include "settings/settings_reader.h"

namespace rankshim {
namespace {

constexpr std::string_view variable_prefix = "RANKSHIM_";
/// Not settings: installers and images export the release's version in the one, and a command of rankshim's
/// has the other (--job-restarts).
constexpr std::array<std::string_view, 2> no_settings = {"RANKSHIM_VERSION", "RANKSHIM_ATTEMPT"};

std::string variable_name(const OptionInfo& option) {
  std::string name(variable_prefix);
  for (const char c : option.name) name += c == '-' ? '_' : to_upper(c);
  return name;
}

}  // namespace

std::variant<Invocation, Rejected> SettingsReader::read(const std::vector<std::string>& arguments) {
  read_command_line(arguments);
  const bool shows_text = invocation_.subcommand == Subcommand::help ||
                          invocation_.subcommand == Subcommand::version ||
                          invocation_.subcommand == Subcommand::licenses;
  if (!shows_text) {
    read_variables();
    read_config();
  }
  for (const OptionInfo& option : options) {
    auto& value = invocation_.settings[option.option];
    if (!value && !option.fallback.empty())
      value = Setting{{std::string(option.fallback), Origin::fallback, ""},
                      parse(option, option.fallback).value()};
  }
  check_subcommand();
  if (rejected_.faults.empty()) return std::move(invocation_);
  rejected_.invocation = std::move(invocation_);
  return std::move(rejected_);
}

void SettingsReader::reject(int code, Fault fault) {
  if (rejected_.exit_code == 0 || code == exit_code::usage) rejected_.exit_code = code;
  rejected_.faults.push_back(std::move(fault));
}

void SettingsReader::take(const OptionInfo& option, std::string_view text, Origin origin,
                          const std::string& detail) {
  text = trimmed(text);
  auto& value = invocation_.settings[option.option];
  const bool again = value && origin == Origin::option;
  const char between = separator(option.kind);
  auto meaning = parse(option, text);
  if (!meaning) return reject_value(option, text, origin, detail);
  if (const bool* truth = std::get_if<bool>(&*meaning)) text = *truth ? "true" : "false";
  if (again && between != '\0') {
    value->text.append(1, between).append(text);
    meaning = parse(option, value->text);  // each part is good, and the whole need not be
    if (!meaning) return reject_value(option, value->text, origin, detail);
    value->meaning = std::move(*meaning);
  } else if (again && value->text != text) {
    reject(exit_code::usage, {Anchor::command_line,
                              fmt::format("{}={} comes after {}={}", detail, in_quotes(text), value->detail,
                                          in_quotes(value->text)),
                              {detail},
                              "give it once"});
  } else if (!value || again) {
    value = Setting{{std::string(text), origin, detail}, std::move(*meaning)};
  }
}

void SettingsReader::reject_value(const OptionInfo& option, std::string_view text, Origin origin,
                                  const std::string& detail) {
  const bool typed = origin == Origin::option;
  std::string what = fmt::format("{}={} is not {}", detail, in_quotes(text), wanted(option));
  if (option.kind == ValueKind::choice) what += and_nearest_choice(text, option.argument);
  reject(typed ? exit_code::usage : exit_code::configuration,
         {Anchor::value,
          std::move(what),
          {detail},
          fmt::format("correct{} {}", typed ? "" : " or unset", detail)});
}

std::string_view nearest_option(std::string_view name, bool OptionInfo::* has) {
  std::vector<std::string_view> known;
  for (const OptionInfo& option : options)
    if (option.*has) known.push_back(option.name);
  return nearest(name, known);
}

void SettingsReader::read_variables() {
  for (const std::string& entry : node_.environment().entries()) {
    if (!entry.starts_with(variable_prefix)) continue;
    const std::string_view name = entry_name(entry);
    if (name.empty() || std::ranges::find(no_settings, name) != no_settings.end()) continue;
    const std::string_view value = std::string_view(entry).substr(name.size() + 1);
    if (value.empty() || is_service_link(value)) continue;
    const auto option = std::find_if(options.begin(), options.end(), [&](const OptionInfo& candidate) {
      return candidate.has_variable && variable_name(candidate) == name;
    });
    if (option != options.end()) {
      take(*option, value, Origin::variable, std::string(name));
    } else if (!is_service_link_name(name)) {
      unknown_variable(name);
    }
  }
}

void SettingsReader::unknown_variable(std::string_view name) {
  const OptionInfo* near =
      find_option(nearest_option(name.substr(variable_prefix.size()), &OptionInfo::has_variable));
  reject(exit_code::configuration,
         {Anchor::unknown_setting,
          fmt::format("unknown variable {}{}", in_quotes(name),
                      and_nearest(near == nullptr ? std::string() : variable_name(*near))),
          {std::string(name)},
          fmt::format("{} {}; rankshim --help lists the settings",
                      near == nullptr ? "unset" : "correct or unset", in_quotes(name))});
}

std::string_view Settings::text(Option option) const {
  const auto& value = (*this)[option];
  return value ? std::string_view(value->text) : std::string_view{};
}

std::variant<Invocation, Rejected> read_settings(const std::vector<std::string>& arguments,
                                                 const Node& node) {
  return SettingsReader(node).read(arguments);
}

}  // namespace rankshim
