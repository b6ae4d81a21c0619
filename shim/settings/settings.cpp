#include "settings/settings.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/fault.h"
#include "base/files.h"
#include "base/text.h"
#include "base/toml.h"
#include "settings/option_value.h"

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

/// The option of that name, without "--"; null if there is none.
const OptionInfo* find_option(std::string_view name) {
  const auto* const found = std::ranges::find(options, name, &OptionInfo::name);
  return found == options.end() ? nullptr : found;
}

/// The name of the nearest option, of those that have this (a variable, a key); empty if none is near.
std::string_view nearest_option(std::string_view name, bool OptionInfo::* has) {
  std::vector<std::string_view> known;
  for (const OptionInfo& option : options)
    if (option.*has) known.push_back(option.name);
  return nearest(name, known);
}

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

/// An invocation while it is read. The sources are read in order of precedence, and the first that sets an
/// option decides it.
struct Draft {
  const Node& node;
  Invocation invocation;
  Rejected rejected;

  void reject(int code, Fault fault);
  /// Rejects the command line.
  void misuse(std::string what, std::vector<std::string> names, std::string fix);

  /// Sets an option unless an earlier source has set it. `detail` is the source: the option as it was
  /// written, a variable or "PATH:KEY". On the command line, a list option that is given again is extended.
  void take(const OptionInfo& option, std::string_view text, Origin origin, const std::string& detail);

 private:
  void reject_value(const OptionInfo& option, std::string_view text, Origin origin,
                    const std::string& detail);
};

void Draft::reject(int code, Fault fault) {
  if (rejected.exit_code == 0 || code == exit_code::usage) rejected.exit_code = code;
  rejected.faults.push_back(std::move(fault));
}

void Draft::misuse(std::string what, std::vector<std::string> names, std::string fix) {
  reject(exit_code::usage, {Anchor::command_line, std::move(what), std::move(names), std::move(fix)});
}

void Draft::take(const OptionInfo& option, std::string_view text, Origin origin, const std::string& detail) {
  text = trimmed(text);
  auto& value = invocation.settings[option.option];
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
    misuse(fmt::format("{}={} comes after {}={}", detail, in_quotes(text), value->detail,
                       in_quotes(value->text)),
           {detail}, "give it once");
  } else if (!value || again) {
    value = Setting{{std::string(text), origin, detail}, std::move(*meaning)};
  }
}

void Draft::reject_value(const OptionInfo& option, std::string_view text, Origin origin,
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

// ---- the command line ----

void unknown_option(Draft& draft, std::string_view name) {
  std::vector<std::string_view> known = {"help", "version", "licenses"};
  for (const OptionInfo& option : options) known.push_back(option.name);
  const std::string_view near = nearest(name.substr(std::min<std::size_t>(2, name.size())), known);
  draft.misuse(fmt::format("unknown option {}{}", in_quotes(name),
                           and_nearest(near.empty() ? std::string() : fmt::format("--{}", near))),
               {std::string(name)}, "see rankshim --help");
}

/// Rejects a first word that is nearly a subcommand, and no program.
void check_misspelt(Draft& draft, const std::string& word) {
  constexpr std::size_t long_enough = 6;  // for two slips
  const std::string_view near = nearest_subcommand(word, word.size() < long_enough ? 1 : 2);
  if (near.empty() || word.find_first_of("/.") != std::string::npos || draft.node.find_program(word)) return;
  draft.misuse(
      fmt::format("{} is neither a subcommand nor a program in PATH{}", in_quotes(word), and_nearest(near)),
      {word}, fmt::format("write rankshim {}, or see rankshim --help", near));
}

void check_format(Draft& draft) {
  auto& format = draft.invocation.settings[Option::format];
  std::string_view choices;
  if (draft.invocation.subcommand == Subcommand::explain || draft.invocation.subcommand == Subcommand::doctor)
    choices = "text|json";
  if (draft.invocation.subcommand == Subcommand::status)
    choices = isatty(STDOUT_FILENO) == 1 ? "text|json" : "json|text";  // a program reads what is no terminal
  if (draft.invocation.subcommand == Subcommand::env) choices = "sh|json|dotenv";
  if (!format) {
    if (!choices.empty())
      format = Setting{{std::string(choices.substr(0, choices.find('|'))), Origin::fallback, ""}, {}};
  } else if (choices.empty()) {
    draft.misuse("--format is for explain, env, doctor and status", {"--format"}, "leave it out");
  } else if (!is_one_of(format->text, choices)) {
    draft.misuse(fmt::format("--format={} is not one of {}{}", in_quotes(format->text), with_commas(choices),
                             and_nearest_choice(format->text, choices)),
                 {"--format"}, "correct --format");
  }
}

void read_command_line(Draft& draft, const std::vector<std::string>& arguments) {
  Invocation& invocation = draft.invocation;
  std::size_t at = 0;
  if (const Usage* usage = arguments.empty() ? nullptr : find_subcommand(arguments[0])) {
    invocation.subcommand = usage->subcommand;
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
      if (of_subcommand) invocation.arguments = {arguments[0]};
      invocation.subcommand = text->subcommand;
      return;
    }
    const auto equals = word.find('=');
    const std::string name(word.substr(0, equals));
    const OptionInfo* option = name.starts_with("--") ? find_option(name.substr(2)) : nullptr;
    std::string_view truth = "true";
    if (option == nullptr && name.starts_with("--no-") && equals == std::string_view::npos) {
      option = find_option(name.substr(5));
      if (option != nullptr && option->kind != ValueKind::boolean) option = nullptr;
      truth = "false";
    }
    if (option == nullptr) {
      unknown_option(draft, name);
    } else if (equals != std::string_view::npos) {
      draft.take(*option, word.substr(equals + 1), Origin::option, name);
    } else if (option->kind == ValueKind::boolean) {
      draft.take(*option, truth, Origin::option, name);
    } else if (at + 1 < arguments.size()) {
      draft.take(*option, arguments[++at], Origin::option, name);
    } else {
      draft.misuse(name + " needs a value", {name}, fmt::format("give {}={}", name, option->argument));
    }
  }
  if (at == 0 && !arguments.empty()) check_misspelt(draft, arguments[0]);
  invocation.arguments.assign(arguments.begin() + static_cast<std::ptrdiff_t>(at), arguments.end());
}

void check_subcommand(Draft& draft) {
  const auto& arguments = draft.invocation.arguments;
  const std::string_view first = arguments.empty() ? std::string_view{} : arguments[0];
  const auto is = [&](auto... these) { return ((draft.invocation.subcommand == these) || ...); };
  using enum Subcommand;
  if (is(run, explain, doctor) && first.starts_with("--") &&
      find_option(first.substr(2, first.substr(2).find('='))) != nullptr)
    draft.misuse(fmt::format("the command begins with {}, which is an option of rankshim", first), {},
                 "give the options before --, and the command after it");
  if (is(run) && arguments.empty() && draft.rejected.faults.empty())
    draft.misuse("no command was given", {},
                 "name one: rankshim [OPTIONS] [--] COMMAND [ARG...], or see rankshim --help");
  if (is(preflight) && !draft.invocation.settings[Option::check] && draft.rejected.faults.empty())
    draft.misuse("preflight needs a check", {}, "rankshim preflight --check 'nvidia-smi'");
  if (is(preflight, env, wait, status, demo, version) && !arguments.empty())
    draft.misuse(fmt::format("unexpected argument {}", in_quotes(first)), {}, "see rankshim --help");
  if (is(platforms) && first == "check") {
    if (arguments.size() != 2)
      draft.misuse("platforms check needs one file", {}, "rankshim platforms check FILE");
  } else if (is(platforms) && arguments.size() > 1) {
    draft.misuse(fmt::format("unexpected argument {}", in_quotes(arguments[1])), {}, "name one profile");
  }
  if (is(install) && (arguments.size() != 1 || first.empty()))
    draft.misuse("install needs one folder", {}, "rankshim install DIR");
  if (is(help) && !arguments.empty() && (arguments.size() > 1 || find_subcommand(first) == nullptr))
    draft.misuse(
        fmt::format("there is no subcommand {}{}", in_quotes(first), and_nearest(nearest_subcommand(first))),
        {}, "see rankshim --help");
  check_format(draft);
}

// ---- the variables ----

void unknown_variable(Draft& draft, std::string_view name) {
  const OptionInfo* near =
      find_option(nearest_option(name.substr(variable_prefix.size()), &OptionInfo::has_variable));
  draft.reject(exit_code::configuration,
               {Anchor::unknown_setting,
                fmt::format("unknown variable {}{}", in_quotes(name),
                            and_nearest(near == nullptr ? std::string() : variable_name(*near))),
                {std::string(name)},
                fmt::format("{} {}; rankshim --help lists the settings",
                            near == nullptr ? "unset" : "correct or unset", in_quotes(name))});
}

void read_variables(Draft& draft) {
  for (const std::string& entry : draft.node.environment().entries()) {
    if (!entry.starts_with(variable_prefix)) continue;
    const std::string_view name = entry_name(entry);
    if (name.empty() || std::ranges::find(no_settings, name) != no_settings.end()) continue;
    const std::string_view value = std::string_view(entry).substr(name.size() + 1);
    if (value.empty() || is_service_link(value)) continue;
    const auto option = std::find_if(options.begin(), options.end(), [&](const OptionInfo& candidate) {
      return candidate.has_variable && variable_name(candidate) == name;
    });
    if (option != options.end()) {
      draft.take(*option, value, Origin::variable, std::string(name));
    } else if (!is_service_link_name(name)) {
      unknown_variable(draft, name);
    }
  }
}

// ---- the configuration file ----

/// A string, number, boolean or list of these as the text that a variable would hold.
std::optional<std::string> key_text(const OptionInfo& option, const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return fmt::format("{}", number->get());
  if (const auto* truth = node.as_boolean()) return truth->get() ? "true" : "false";
  const toml::array* list = node.as_array();
  if (list == nullptr) return std::nullopt;
  const char between = separator(option.kind);
  std::string joined;
  for (const toml::node& item : *list) {
    const auto text = item.is_array() ? std::nullopt : key_text(option, item);
    if (!text) return std::nullopt;
    if (!joined.empty()) joined += between == '\0' ? ',' : between;
    joined += *text;
  }
  return joined;
}

void read_key(Draft& draft, const std::string& path, std::string_view key, const toml::node& node) {
  const OptionInfo* option = find_option(key);
  const std::string where = fmt::format("{}:{}", path, key);
  const std::string line = fmt::format("{}:{}", path, node.source().begin.line);
  if (option == nullptr || !option->has_key) {
    const std::string_view near = nearest_option(key, &OptionInfo::has_key);
    draft.reject(
        exit_code::configuration,
        {Anchor::unknown_setting,
         fmt::format("{}: unknown key {}{}", line, in_quotes(key), and_nearest(near)),
         {where},
         fmt::format("{} {} in {}", near.empty() ? "remove" : "correct or remove", in_quotes(key), path)});
  } else if (const auto text = key_text(*option, node); !text) {
    draft.reject(exit_code::configuration, {Anchor::value,
                                            fmt::format("{}: {} must be {}", line, key, wanted(*option)),
                                            {where},
                                            fmt::format("correct {} in {}", key, path)});
  } else if (!text->empty()) {
    draft.take(*option, *text, Origin::config, where);
  }
}

void read_config(Draft& draft) {
  // The key `config` does not exist in the file, so the command line and the variable have already been read.
  const auto& chosen = draft.invocation.settings[Option::config];
  const std::string path = chosen ? chosen->text : std::string(info(Option::config).fallback);
  const auto read = draft.node.read(path);
  if (const auto* refusal = std::get_if<Unreadable>(&read)) {
    if (!chosen && refusal->is_absent()) return;
    draft.reject(
        refusal->is_for_want() ? exit_code::system : exit_code::configuration,
        {Anchor::config_file,
         fmt::format("the configuration file {} cannot be read ({})", in_quotes(path), refusal->why()),
         {chosen ? chosen->detail : path},
         chosen ? fmt::format("correct {}", chosen->detail)
                : fmt::format("make {} readable, or remove it", path)});
    return;
  }
  const std::string& document = std::get<std::string>(read);
  if (document.size() > largest_file) {
    draft.reject(exit_code::configuration,
                 {Anchor::config_file,
                  fmt::format("the configuration file {} is larger than 1 MiB", in_quotes(path)),
                  {path},
                  "shorten it"});
    return;
  }
  Faults faults;
  const auto top = TomlDocument(path, faults).parse(document, largest_file);
  for (Fault& fault : faults) {
    fault.anchor = Anchor::config_file;
    draft.reject(exit_code::configuration, std::move(fault));
  }
  if (!top) return;
  for (const auto& [key, node] : *top) read_key(draft, path, key.str(), node);
}

}  // namespace

std::string not_found(std::string_view program) {
  const bool is_path = program.find('/') != std::string_view::npos;
  std::string advice;
  if (find_subcommand(program) != nullptr)
    advice = fmt::format("; a subcommand is the first word: rankshim {} [OPTIONS]", program);
  if (program == "torchrun")
    advice = "; it is beside torch's Python: install torch in this image, or add that folder to PATH";
  return fmt::format("{} was not found{}{}", program, is_path ? "" : " in PATH", advice);
}

std::variant<Invocation, Rejected> read_settings(const std::vector<std::string>& arguments,
                                                 const Node& node) {
  Draft draft{.node = node, .invocation = {}, .rejected = {}};
  read_command_line(draft, arguments);
  auto& [subcommand, words, settings] = draft.invocation;
  using enum Subcommand;
  if (subcommand != help && subcommand != version && subcommand != licenses) {
    read_variables(draft);
    read_config(draft);
  }
  for (const OptionInfo& option : options) {
    auto& value = settings[option.option];
    if (!value && !option.fallback.empty())
      value = Setting{{std::string(option.fallback), Origin::fallback, ""},
                      parse(option, option.fallback).value()};
  }
  check_subcommand(draft);
  if (draft.rejected.faults.empty()) return std::move(draft.invocation);
  draft.rejected.invocation = std::move(draft.invocation);
  return std::move(draft.rejected);
}

}  // namespace rankshim
