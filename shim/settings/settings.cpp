#include "settings/settings.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <ranges>
#include <utility>

#include "base/files.h"
#include "base/text.h"
#include "base/toml.h"
#include "settings/codes.h"

namespace rankshim::settings {
namespace {

using node::Host;

constexpr std::string_view variable_prefix = "RANKSHIM_";
/// Variables that are not settings: images export the release's version in the first, and a command gets the
/// second (--job-restarts).
constexpr std::array<std::string_view, 2> no_settings = {"RANKSHIM_VERSION", "RANKSHIM_ATTEMPT"};

/// The variable of the option of that name.
std::string variable_name(std::string_view option) {
  std::string name(variable_prefix);
  for (const char c : option) name += c == '-' ? '_' : to_upper(c);
  return name;
}

/// The first entry of that name in a table; null if there is none, or the name is empty.
template <class Table>
const typename Table::value_type* find(const Table& table, std::string_view name) {
  const auto found = std::ranges::find(table, name, &Table::value_type::name);
  return found == table.end() || name.empty() ? nullptr : &*found;
}

/// The nearest of the names in a table; empty if none is near.
std::string_view nearest_in(auto table, std::string_view name, std::optional<std::size_t> most_steps = {}) {
  std::vector<std::string_view> known;
  for (const auto& entry : table)
    if (!entry.name.empty()) known.push_back(entry.name);
  return nearest(name, known, most_steps);
}

/// The long form of a text option; any other word is unchanged.
std::string_view long_form(std::string_view word) {
  if (word == "-h") return "--help";
  if (word == "-V") return "--version";
  return word;
}

/// The topic of `help` that shows everything; the others are subcommands and codes.
constexpr std::string_view all_topics = "all";

/// The topic of `help` nearest to this one; empty if none is near.
std::string_view nearest_topic(std::string_view topic) {
  std::vector<std::string_view> known = all_codes();
  known.push_back(all_topics);
  for (const Usage& usage : usages)
    if (!usage.name.empty()) known.push_back(usage.name);
  return nearest(topic, known);
}

/// A string, number, boolean or list of these, as the text that a variable would hold.
std::optional<std::string> key_text(const OptionInfo& option, const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return fmt::format("{}", number->get());
  if (const auto* truth = node.as_boolean()) return truth->get() ? "true" : "false";
  const toml::array* list = node.as_array();
  if (list == nullptr) return std::nullopt;
  const char between = separator(option);
  std::vector<std::string> items;
  for (const toml::node& item : *list) {
    auto text = item.is_array() ? std::nullopt : key_text(option, item);
    if (!text) return std::nullopt;
    items.push_back(*std::move(text));
  }
  return joined(items, {between == '\0' ? "," : &between, 1});
}

/// Reads the sources in order of precedence: the first that sets an option wins.
class Reader {
 public:
  explicit Reader(const Host& host) : host_(host) {}

  std::variant<Invocation, Rejected> read(const std::vector<std::string>& arguments) {
    read_command_line(arguments);
    using enum Subcommand;
    if (const Subcommand asked = invocation_.subcommand;
        asked != help && asked != version && asked != licenses) {
      read_variables();
      read_config();
    }
    for (const OptionInfo& option : options) {
      auto& value = invocation_.settings[option.option];
      if (!value && !option.fallback.empty()) value = builtin_setting(option.option, option.fallback);
    }
    check_arguments();
    check_format();
    if (result_.faults.empty()) return std::move(invocation_);
    return std::move(result_);
  }

 private:
  void reject(int code, ErrorCode error_code, std::string what, std::string name, std::string fix) {
    if (result_.exit_code == 0 || code == exit_code::usage) result_.exit_code = code;
    std::vector<std::string> names;
    if (!name.empty()) names.push_back(std::move(name));
    result_.faults.push_back({error_code, std::move(what), std::move(names), std::move(fix)});
  }

  /// Rejects the command line.
  void misuse(std::string what, std::string fix, std::string name = {}) {
    reject(exit_code::usage, ErrorCode::command_line, std::move(what), std::move(name), std::move(fix));
  }

  /// Sets an option unless an earlier source has set it. `source` is the option as written, a variable or
  /// "PATH:KEY". On the command line, giving a list option again extends the list.
  void take(const OptionInfo& option, std::string_view given, Origin origin, const std::string& source) {
    const bool typed = origin == Origin::option;
    auto& value = invocation_.settings[option.option];
    std::string text(trimmed(given));
    const char between = separator(option);
    const bool extends = typed && value && between != '\0';
    if (extends) text = value->text + between + text;
    auto parsed = parse(option, text);
    if (!parsed)
      return reject(typed ? exit_code::usage : exit_code::configuration, ErrorCode::value,
                    fmt::format("{}={} is not {}", source, in_quotes(text), wanted(option, text)), source,
                    fmt::format("correct{} {}", typed ? "" : " or unset", source));
    if (const bool* truth = std::get_if<bool>(&*parsed)) text = *truth ? "true" : "false";
    if (!value || extends) {
      value = Setting{{std::move(text), origin, source}, *std::move(parsed)};
    } else if (typed && value->text != text) {
      misuse(fmt::format("{}={} comes after {}={}", source, in_quotes(text), value->detail,
                         in_quotes(value->text)),
             "give it once", source);
    }
  }

  void read_command_line(const std::vector<std::string>& arguments) {
    const Usage* usage = arguments.empty() ? nullptr : find(usages, arguments[0]);
    if (usage != nullptr) invocation_.subcommand = usage->subcommand;
    std::size_t at = usage == nullptr ? 0 : 1;
    for (; at < arguments.size(); ++at) {
      const std::string_view word = arguments[at];
      if (word == "--") {
        ++at;
        break;
      }
      if (word == "-m" || word.size() < 2 || word[0] != '-') break;  // the command begins here
      if (const Usage* text = find(text_options, long_form(word))) {
        if (text->subcommand == Subcommand::help && usage != nullptr) invocation_.arguments = {arguments[0]};
        invocation_.subcommand = text->subcommand;
        return;
      }
      const auto equals = word.find('=');
      const std::string name(word.substr(0, equals));
      const OptionInfo* option = name.starts_with("--") ? find(options, name.substr(2)) : nullptr;
      std::string_view truth = "true";
      if (option == nullptr && name.starts_with("--no-") && equals == std::string_view::npos) {
        option = find(options, name.substr(5));
        if (option != nullptr && !option->is_boolean()) option = nullptr;
        truth = "false";
      }
      if (option == nullptr) {
        const std::string_view near = nearest_in(options, name.substr(std::min<std::size_t>(2, name.size())));
        misuse(fmt::format("unknown option {}{}", in_quotes(name),
                           and_nearest(near.empty() ? "" : fmt::format("--{}", near))),
               "see rankshim --help", name);
      } else if (equals != std::string_view::npos) {
        take(*option, word.substr(equals + 1), Origin::option, name);
      } else if (option->is_boolean()) {
        take(*option, truth, Origin::option, name);
      } else if (at + 1 < arguments.size()) {
        take(*option, arguments[++at], Origin::option, name);
      } else {
        misuse(name + " needs a value", fmt::format("give {}={}", name, option->argument), name);
      }
    }
    invocation_.arguments.assign(arguments.begin() + static_cast<std::ptrdiff_t>(at), arguments.end());
    if (at != 0 || arguments.empty()) return;
    // The first word may be a misspelt subcommand instead of a program.
    const std::string& word = arguments[0];
    const std::string_view near = nearest_in(usages, word, word.size() < 6 ? 1 : 2);
    if (!near.empty() && word.find_first_of("/.") == std::string::npos && !host_.find_program(word))
      misuse(fmt::format("{} is neither a subcommand nor a program in PATH{}", in_quotes(word),
                         and_nearest(near)),
             fmt::format("write rankshim {}, or see rankshim --help", near), word);
  }

  void read_variables() {
    for (const std::string& entry : host_.environment().entries()) {
      if (!entry.starts_with(variable_prefix)) continue;
      const std::string name(node::entry_name(entry));
      if (name.empty() || contains(no_settings, name)) continue;
      const std::string_view value = std::string_view(entry).substr(name.size() + 1);
      if (value.empty() || node::is_service_link(value)) continue;
      const auto* const option = std::ranges::find_if(options, [&](const OptionInfo& candidate) {
        return candidate.has_variable && variable_name(candidate.name) == name;
      });
      if (option != options.end()) {
        take(*option, value, Origin::variable, name);
      } else if (!node::is_service_link_name(name)) {
        const std::string_view near = nearest_in(options | std::views::filter(&OptionInfo::has_variable),
                                                 name.substr(variable_prefix.size()));
        reject(exit_code::configuration, ErrorCode::unknown_setting,
               fmt::format("unknown variable {}{}", in_quotes(name),
                           and_nearest(near.empty() ? "" : variable_name(near))),
               name,
               fmt::format("correct or unset {}; rankshim help all lists the settings", in_quotes(name)));
      }
    }
  }

  void read_config() {
    // The file has no key `config`, so everything that can name another file has been read.
    const auto& chosen = invocation_.settings[Option::config];
    const std::string path(chosen ? chosen->text : info(Option::config).fallback);
    const auto read = host_.read(path);
    if (const auto* refusal = std::get_if<Unreadable>(&read)) {
      if (chosen || !refusal->is_absent())
        reject(refusal->is_for_want() ? exit_code::system : exit_code::configuration, ErrorCode::config_file,
               fmt::format("the configuration file {} cannot be read ({})", in_quotes(path), refusal->why()),
               chosen ? chosen->detail : path,
               chosen ? fmt::format("correct {}", chosen->detail)
                      : fmt::format("make {} readable, or remove it", path));
      return;
    }
    Faults faults;
    const auto top = TomlDocument(path, faults).parse(std::get<std::string>(read), largest_file);
    for (const Fault& fault : faults)
      reject(exit_code::configuration, ErrorCode::config_file, fault.what, path, fault.fix);
    if (!top) return;
    for (const auto& [key, node] : *top) read_key(path, key.str(), node);
  }

  void read_key(const std::string& path, std::string_view key, const toml::node& node) {
    const OptionInfo* option = find(options, key);
    const std::string where = fmt::format("{}:{}", path, key);
    const std::string line = fmt::format("{}:{}", path, node.source().begin.line);
    if (option == nullptr || !option->has_key) {
      const std::string_view near = nearest_in(options | std::views::filter(&OptionInfo::has_key), key);
      reject(exit_code::configuration, ErrorCode::unknown_setting,
             fmt::format("{}: unknown key {}{}", line, in_quotes(key), and_nearest(near)), where,
             fmt::format("correct or remove {} in {}", in_quotes(key), path));
    } else if (const auto text = key_text(*option, node); !text) {
      reject(exit_code::configuration, ErrorCode::value,
             fmt::format("{}: {} must be {}", line, key, wanted(*option)), where,
             fmt::format("correct {} in {}", key, path));
    } else if (!text->empty()) {
      take(*option, *text, Origin::config, where);
    }
  }

  void check_arguments() {
    using enum Subcommand;
    switch (invocation_.subcommand) {
      case run:
      case explain:
      case doctor:
        return check_command();
      case preflight:
        take_at_most(0);
        if (!invocation_.settings[Option::check] && result_.faults.empty())
          misuse("preflight needs a check", "rankshim preflight --check 'nvidia-smi'");
        return;
      case platforms:
        take_at_most(first_argument() == "check" ? 2 : 1);
        if (first_argument() == "check" && invocation_.arguments.size() == 1)
          misuse("platforms check needs one file", "rankshim platforms check FILE");
        return;
      case install:
        take_at_most(1);
        if (first_argument().empty()) misuse("install needs one folder", "rankshim install DIR");
        return;
      case status:
        take_at_most(1);
        return check_question(first_argument());
      case help:
        take_at_most(1);
        return check_topic(first_argument());
      case demo:
      case env:
      case wait:
      case version:
      case licenses:
        return take_at_most(0);
    }
  }

  [[nodiscard]] std::string_view first_argument() const {
    return invocation_.arguments.empty() ? std::string_view() : invocation_.arguments.front();
  }

  void take_at_most(std::size_t most) {
    const auto& arguments = invocation_.arguments;
    if (arguments.size() > most)
      misuse(fmt::format("unexpected argument {}", in_quotes(arguments[most])), "see rankshim --help");
  }

  void check_command() {
    const auto& arguments = invocation_.arguments;
    const std::string_view first = first_argument();
    if (first.starts_with("--") && find(options, first.substr(2, first.substr(2).find('='))) != nullptr)
      misuse(fmt::format("the command begins with {}, which is an option of rankshim", first),
             "give the options before --, and the command after it");
    if (first.empty() && !arguments.empty())
      misuse("the command is empty", "give a program or a script; a shell's variable may not be set");
    if (first == "-m" && arguments.size() == 1) misuse("-m needs a module", "give -m MODULE");
    if (invocation_.subcommand == Subcommand::run && arguments.empty() && result_.faults.empty())
      misuse("no command was given",
             "name one: rankshim [OPTIONS] [--] COMMAND [ARG...], or see rankshim --help");
  }

  void check_question(std::string_view question) {
    if (!contains(std::array<std::string_view, 3>{"", "live", "ready"}, question))
      misuse(fmt::format("status has no question {}", in_quotes(question)),
             "ask rankshim status, rankshim status live or rankshim status ready");
  }

  void check_topic(std::string_view topic) {
    if (topic.empty() || topic == all_topics || find(usages, topic) != nullptr || !about_code(topic).empty())
      return;
    misuse(fmt::format("there is no subcommand or code {}{}", in_quotes(topic),
                       and_nearest(nearest_topic(topic))),
           "see rankshim --help");
  }

  void check_format() {
    auto& format = invocation_.settings[Option::format];
    const auto* const usage = std::ranges::find(usages, invocation_.subcommand, &Usage::subcommand);
    const std::string_view formats = usage == usages.end() ? std::string_view() : usage->formats;
    if (formats.empty()) {
      if (format) misuse("--format is for explain, env, doctor and status", "leave it out", "--format");
    } else if (!format) {
      const bool for_program = invocation_.subcommand == Subcommand::status && isatty(STDOUT_FILENO) != 1;
      const std::string_view first = for_program ? "json" : formats.substr(0, formats.find('|'));
      format = Setting{{std::string(first), Origin::fallback, ""}, {}};
    } else if (!has_part(formats, format->text, "|")) {
      reject(exit_code::usage, ErrorCode::value,
             fmt::format("--format={} is not {}", in_quotes(format->text), one_of(formats, format->text)),
             "--format", "correct --format");
    }
  }

  const Host& host_;
  Rejected result_;
  Invocation& invocation_ = result_.invocation;
};

constexpr std::size_t width = 80;
constexpr std::size_t help_column = 28;

/// Appends `text`, broken at blanks so that no line exceeds the width, to a line of `column` columns.
void wrap(std::string& out, std::size_t column, std::string_view text) {
  if (column + 1 >= help_column) column = width;
  for (auto word = next_word(text); !word.empty(); word = next_word(text)) {
    if (column + 1 + word.size() > width) {
      out += '\n';
      column = 0;
    }
    const std::size_t gap = column < help_column ? help_column - column : 1;
    out.append(gap, ' ').append(word);
    column += gap + word.size();
  }
  out += '\n';
}

constexpr std::string_view title = "rankshim: a container's entrypoint that launches PyTorch on any platform";

/// `--help`: what fits a terminal of 24 lines.
std::string one_screen() {
  std::string out = fmt::format("{}\n\nusage: rankshim {}\n\nExamples:\n", title, usages[0].arguments);
  for (const auto& [command, help] : examples) out += fmt::format("  {:<33}{}\n", command, help);
  out += "\nSubcommands:\n";
  std::string_view before;
  for (const Usage& usage : usages)
    if (usage.name != std::exchange(before, usage.name))
      out += fmt::format("  {:<10}{}\n", usage.name, usage.help);
  return out + "\nrankshim help all lists all options, rankshim help NAME those of a subcommand.\n";
}

}  // namespace

std::variant<Invocation, Rejected> read_settings(const std::vector<std::string>& arguments,
                                                 const Host& host) {
  return Reader(host).read(arguments);
}

std::string help_text(std::string_view topic) {
  if (topic.empty()) return one_screen();
  if (const std::string_view code = about_code(topic); !code.empty()) return std::string(code) + "\n";
  const bool all = topic == all_topics;
  std::string out, takes;
  if (all) out = fmt::format("{}\n\n", title);
  std::string_view before = "usage: ";
  for (const Usage& usage : usages) {
    if (!all && usage.name != topic) continue;
    out += fmt::format("{}rankshim{}{}{}{}\n         {}\n", std::exchange(before, "       "),
                       usage.name.empty() ? "" : " ", usage.name, usage.arguments.empty() ? "" : " ",
                       usage.arguments, usage.help);
    takes.append(usage.takes).append(";");
  }
  if (all) {
    before = "       rankshim ";
    for (const Usage& text : text_options) out.append(std::exchange(before, " | ")).append(text.name);
    out.append("\n\n").append(names_text);
  }
  std::string_view group, last_group;
  for (const OptionInfo& option : options) {
    if (!option.group.empty()) group = option.group;
    if (!all && !has_part(takes, group, ";") && !has_part(takes, option.name, ";")) continue;
    if (group != std::exchange(last_group, group)) out += fmt::format("\n{}:\n", group);
    const std::string head = option.is_boolean() ? fmt::format("  --[no-]{}", option.name)
                                                 : fmt::format("  --{} {}", option.name, option.argument);
    std::string help(option.help);
    if (!option.fallback.empty()) help += fmt::format(" [{}]", option.fallback);
    out += head;
    wrap(out, head.size(), help);
  }
  if (!all) return out + "\nrankshim help all lists all options.\n";
  out += "\nExit codes:\n";
  for (const ExitCodeInfo& info : exit_codes) {
    const std::string head = fmt::format("  {}", info.code);
    out += head;
    wrap(out, head.size(), info.meaning);
  }
  return out;
}

std::string_view short_help() {
  return "rankshim: no command was given. As a container's entrypoint, rankshim starts PyTorch on this "
         "node of a job:\n"
         "  rankshim -- train.py --epochs 3    launch a script as the platform describes the job\n"
         "  rankshim -- bash run.sh            run a program with the job's variables\n"
         "  rankshim explain -- train.py       print what would happen and why\n"
         "  rankshim --help                    print a summary with all subcommands\n";
}

}  // namespace rankshim::settings
