#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

#include "base/fault.h"
#include "base/text.h"
#include "settings/option_value.h"
#include "settings/settings_reader.h"

namespace rankshim {
namespace {

/// The subcommand of this name. The empty word names none.
const Usage* find_subcommand(std::string_view word) {
  const auto* const found = std::ranges::find(usages, word, &Usage::name);
  return found == usages.end() || word.empty() ? nullptr : found;
}

std::string_view nearest_subcommand(std::string_view word, std::optional<std::size_t> most_steps = {}) {
  std::vector<std::string_view> known;
  for (const Usage& usage : usages)
    if (!usage.name.empty()) known.push_back(usage.name);
  return nearest(word, known, most_steps);
}

/// The option of this name that prints a text.
const Usage* find_text_option(std::string_view word) {
  const std::string_view name = word == "-h" ? "--help" : word == "-V" ? "--version" : word;
  const auto* const found = std::ranges::find(text_options, name, &Usage::name);
  return found == text_options.end() ? nullptr : found;
}

}  // namespace

const OptionInfo* find_option(std::string_view name) {
  const auto found =
      std::find_if(options.begin(), options.end(), [&](const auto& o) { return o.name == name; });
  return found == options.end() ? nullptr : &*found;
}

void SettingsReader::unknown_option(std::string_view name) {
  std::vector<std::string_view> known = {"help", "version", "licenses"};
  for (const OptionInfo& option : options) known.push_back(option.name);
  const std::string_view near = nearest(name.substr(std::min<std::size_t>(2, name.size())), known);
  reject(exit_code::usage,
         {Anchor::command_line,
          fmt::format("unknown option {}{}", in_quotes(name),
                      and_nearest(near.empty() ? std::string() : fmt::format("--{}", near))),
          {std::string(name)},
          "see rankshim --help"});
}

void SettingsReader::check_misspelt(const std::string& word) {
  constexpr std::size_t long_enough = 6;  // for two slips
  const std::string_view near = nearest_subcommand(word, word.size() < long_enough ? 1 : 2);
  if (near.empty() || word.find_first_of("/.") != std::string::npos || node_.find_program(word)) return;
  reject(exit_code::usage, {Anchor::command_line,
                            fmt::format("{} is neither a subcommand nor a program in PATH{}", in_quotes(word),
                                        and_nearest(near)),
                            {word},
                            fmt::format("write rankshim {}, or see rankshim --help", near)});
}

void SettingsReader::read_command_line(const std::vector<std::string>& arguments) {
  std::size_t at = 0;
  if (const Usage* usage = arguments.empty() ? nullptr : find_subcommand(arguments[0])) {
    invocation_.subcommand = usage->subcommand;
    at = 1;
  }
  for (; at < arguments.size(); ++at) {
    const std::string_view word = arguments[at];
    if (word == "--") {
      ++at;
      break;
    }
    if (word == "-m" || word.size() < 2 || word[0] != '-') break;  // the command begins here
    if (const Usage* text = find_text_option(word)) {
      const bool of_subcommand =
          text->subcommand == Subcommand::help && find_subcommand(arguments[0]) != nullptr;
      if (of_subcommand) invocation_.arguments = {arguments[0]};
      invocation_.subcommand = text->subcommand;
      return;
    }
    const auto equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    const OptionInfo* option = name.starts_with("--") ? find_option(name.substr(2)) : nullptr;
    bool truth = true;
    if (option == nullptr && name.starts_with("--no-") && equals == std::string_view::npos) {
      option = find_option(name.substr(5));
      if (option != nullptr && option->kind != ValueKind::boolean) option = nullptr;
      truth = false;
    }
    if (option == nullptr) {
      unknown_option(name);
      continue;
    }
    const std::string detail(name);
    if (equals != std::string_view::npos) {
      take(*option, word.substr(equals + 1), Origin::option, detail);
    } else if (option->kind == ValueKind::boolean) {
      take(*option, truth ? "true" : "false", Origin::option, detail);
    } else if (at + 1 < arguments.size()) {
      take(*option, arguments[++at], Origin::option, detail);
    } else {
      reject(exit_code::usage, {Anchor::command_line,
                                fmt::format("{} needs a value", detail),
                                {detail},
                                fmt::format("give {}={}", detail, option->argument)});
    }
  }
  if (at == 0 && !arguments.empty()) check_misspelt(arguments[0]);
  invocation_.arguments.assign(
      arguments.begin() + static_cast<std::ptrdiff_t>(std::min(at, arguments.size())), arguments.end());
}

void SettingsReader::check_subcommand() {
  const auto& arguments = invocation_.arguments;
  const auto usage = [&](std::string what, std::string fix) {
    reject(exit_code::usage, {Anchor::command_line, std::move(what), {}, std::move(fix)});
  };
  const auto is = [&](auto... these) { return ((invocation_.subcommand == these) || ...); };
  using enum Subcommand;
  const std::string_view first =
      is(run, explain, doctor) && !arguments.empty() ? std::string_view(arguments[0]) : std::string_view{};
  if (first.starts_with("--") && find_option(first.substr(2, first.substr(2).find('='))) != nullptr) {
    usage(fmt::format("the command begins with {}, which is an option of rankshim", first),
          "give the options before --, and the command after it");
  }
  if (is(run) && arguments.empty() && rejected_.faults.empty())
    usage("no command was given",
          "name one: rankshim [OPTIONS] [--] COMMAND [ARG...], or see rankshim --help");
  if (is(preflight) && !invocation_.settings[Option::check] && rejected_.faults.empty())
    usage("preflight needs a check", "rankshim preflight --check 'nvidia-smi'");
  if (is(preflight, env, wait, status, demo, version) && !arguments.empty())
    usage(fmt::format("unexpected argument {}", in_quotes(arguments[0])), "see rankshim --help");
  if (is(platforms) && !arguments.empty() && arguments[0] == "check") {
    if (arguments.size() != 2) usage("platforms check needs one file", "rankshim platforms check FILE");
  } else if (is(platforms) && arguments.size() > 1) {
    usage(fmt::format("unexpected argument {}", in_quotes(arguments[1])), "name one profile");
  }
  if (is(install) && (arguments.size() != 1 || arguments[0].empty()))
    usage("install needs one folder", "rankshim install DIR");
  if (is(help)) check_help();
  check_format();
}

void SettingsReader::check_help() {
  const auto& arguments = invocation_.arguments;
  if (arguments.empty() || (arguments.size() == 1 && find_subcommand(arguments[0]) != nullptr)) return;
  reject(exit_code::usage, {Anchor::command_line,
                            fmt::format("there is no subcommand {}{}", in_quotes(arguments[0]),
                                        and_nearest(nearest_subcommand(arguments[0]))),
                            {},
                            "see rankshim --help"});
}

void SettingsReader::check_format() {
  auto& format = invocation_.settings[Option::format];
  std::string_view choices;
  if (invocation_.subcommand == Subcommand::explain || invocation_.subcommand == Subcommand::doctor)
    choices = "text|json";
  if (invocation_.subcommand == Subcommand::status)
    choices = isatty(STDOUT_FILENO) == 1 ? "text|json" : "json|text";  // a program reads what is no terminal
  if (invocation_.subcommand == Subcommand::env) choices = "sh|json|dotenv";
  if (!format) {
    if (!choices.empty())
      format = Setting{{std::string(choices.substr(0, choices.find('|'))), Origin::fallback, ""}, {}};
    return;
  }
  if (is_one_of(format->text, choices)) return;
  reject(exit_code::usage,
         {Anchor::command_line,
          choices.empty() ? "--format is for explain, env, doctor and status"
                          : fmt::format("--format={} is not one of {}{}", in_quotes(format->text),
                                        with_commas(choices), and_nearest_choice(format->text, choices)),
          {"--format"},
          choices.empty() ? "leave it out" : "correct --format"});
}

std::string not_found(std::string_view program) {
  const bool is_path = program.find('/') != std::string_view::npos;
  std::string advice;
  if (find_subcommand(program) != nullptr)
    advice = fmt::format("; a subcommand is the first word: rankshim {} [OPTIONS]", program);
  if (program == "torchrun")
    advice = "; it is beside torch's Python: install torch in this image, or add that folder to PATH";
  return fmt::format("{} was not found{}{}", program, is_path ? "" : " in PATH", advice);
}

}  // namespace rankshim
