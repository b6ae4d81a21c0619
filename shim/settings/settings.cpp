#include "settings/settings.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "base/exit_code.h"
#include "base/nearest.h"
#include "base/pattern.h"
#include "base/read_file.h"
#include "base/signal_text.h"
#include "base/text.h"
#include "base/toml.h"
#include "base/toml_nesting.h"
#include "settings/exit_map.h"

namespace rankshim {
namespace {

constexpr std::string_view variable_prefix = "RANKSHIM_";
/// Said about us rather than to us: the release's version, as installers and images export it.
constexpr std::string_view version_variable = "RANKSHIM_VERSION";

std::string variable_name(const OptionInfo& option) {
  std::string name(variable_prefix);
  for (const char c : option.name)
    name += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return name;
}

const OptionInfo* find_option(std::string_view name) {
  const auto found =
      std::find_if(options.begin(), options.end(), [&](const auto& o) { return o.name == name; });
  return found == options.end() ? nullptr : &*found;
}

/// The subcommand of this name; none has an empty one.
const Usage* find_subcommand(std::string_view word) {
  const auto* const found = std::ranges::find(usages, word, &Usage::name);
  return found == usages.end() || word.empty() ? nullptr : found;
}

bool is_one_of(std::string_view value, std::string_view choices) {
  while (!choices.empty()) {
    const auto bar = choices.find('|');
    if (choices.substr(0, bar) == value) return true;
    choices = bar == std::string_view::npos ? std::string_view{} : choices.substr(bar + 1);
  }
  return false;
}

std::string with_commas(std::string_view choices) {
  std::string text(choices);
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.replace(at, 1, ", ");
  return text;
}

/// The value as it is kept ("1" becomes "true"); nothing where the kind does not allow it.
std::optional<std::string> normalise(const OptionInfo& option, std::string_view text) {
  switch (option.kind) {
    case ValueKind::text:
      break;
    case ValueKind::choice:
      if (!is_one_of(text, option.argument)) return std::nullopt;
      break;
    case ValueKind::time:
      if (!parse_time(text)) return std::nullopt;
      break;
    case ValueKind::boolean:
      if (text == "1" || text == "true") return "true";
      if (text == "0" || text == "false") return "false";
      return std::nullopt;
    case ValueKind::exit_map:
      if (!ExitMap::parse(text)) return std::nullopt;
      break;
    case ValueKind::pattern:
      if (!Pattern::compile(text)) return std::nullopt;
      break;
    case ValueKind::signal:
      if (!supervise::parse_signal(text)) return std::nullopt;
      break;
    case ValueKind::signals:
      if (!supervise::parse_signals(text)) return std::nullopt;
      break;
    case ValueKind::signal_map:
      if (!supervise::SignalMap::parse(text)) return std::nullopt;
      break;
  }
  return std::string(text);
}

std::string wanted(const OptionInfo& option) {
  switch (option.kind) {
    case ValueKind::choice:
      return "one of " + with_commas(option.argument);
    case ValueKind::time:
      return "a time such as 90s, 10m, 2h or a number of seconds";
    case ValueKind::boolean:
      return "1, 0, true or false";
    case ValueKind::exit_map:
      return "FROM[-TO]=CODE,... with codes from 0 to 255, or oom=, wait=, config=, "
             "stopped=CODE";
    case ValueKind::pattern:
      return "a regular expression of literals, . [] * + ? | () ^ $ and \\d \\w \\s";
    case ValueKind::signal:
      return "a signal such as TERM, SIGUSR1, RTMIN+3 or 15";
    case ValueKind::signals:
      return "signals such as USR1,RTMIN+3,15, or none";
    case ValueKind::signal_map:
      return "FROM=TO,... with signals such as TERM, RTMIN+3 or 15; TO may be none";
    case ValueKind::text:
      break;
  }
  return std::string(option.argument);
}

/// What stands between the values of an option that takes a list; '\0' where it takes none.
char between_values(ValueKind kind) {
  switch (kind) {
    case ValueKind::exit_map:
    case ValueKind::signals:
    case ValueKind::signal_map:
      return ',';
    case ValueKind::pattern:
      return '|';
    default:
      return '\0';
  }
}

/// Reads one invocation; the sources are asked in the order of who wins, and the first to set an option keeps
/// it.
class Reader {
 public:
  explicit Reader(const Node& node) : node_(node) {}

  std::variant<Invocation, Rejected> read(const std::vector<std::string>& arguments) {
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
        value = Value{std::string(option.fallback), Origin::fallback, ""};
    }
    check_subcommand();
    check_delay();
    if (rejected_.faults.empty()) return std::move(invocation_);
    rejected_.invocation = std::move(invocation_);
    return std::move(rejected_);
  }

 private:
  void reject(int code, Fault fault) {
    if (rejected_.exit_code == 0 || code == exit_code::usage) rejected_.exit_code = code;
    rejected_.faults.push_back(std::move(fault));
  }

  void take(const OptionInfo& option, std::string_view text, Origin origin, const std::string& detail) {
    if (option.kind != ValueKind::pattern) text = trimmed(text);
    auto& value = invocation_.settings[option.option];
    const bool again = value && origin == Origin::option;
    const char between = between_values(option.kind);
    const std::string all =
        again && between != '\0' ? value->text + between + std::string(text) : std::string(text);
    const std::optional<std::string> normal = normalise(option, all);
    if (!normal) {
      const int code = origin == Origin::option ? exit_code::usage : exit_code::configuration;
      reject(code, {fmt::format("{}={} is not {}", detail, rankshim::quoted(text), wanted(option)),
                    {detail},
                    fmt::format("set {} to {}", detail, wanted(option))});
      return;
    }
    if (again && between == '\0' && value->text != *normal) {
      reject(exit_code::usage, {fmt::format("{}={} comes after {}={}", detail, rankshim::quoted(text),
                                            value->detail, rankshim::quoted(value->text)),
                                {detail},
                                "give it once"});
      return;
    }
    if (!value || again) value = Value{*normal, origin, detail};
  }

  void unknown_option(std::string_view name) {
    std::vector<std::string_view> known = {"help", "version", "licenses"};
    for (const OptionInfo& option : options) known.push_back(option.name);
    const std::string_view near = nearest(name.substr(std::min<std::size_t>(2, name.size())), known);
    reject(exit_code::usage, {fmt::format("unknown option {}", rankshim::quoted(name)),
                              {std::string(name)},
                              near.empty() ? std::string("see rankshim --help")
                                           : fmt::format("did you mean --{}? See rankshim --help", near)});
  }

  void read_command_line(const std::vector<std::string>& arguments) {
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
      if (word == "-h") return set_text(Subcommand::help);
      for (const Usage& text : text_options) {
        if (word == text.name) return set_text(text.subcommand);
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
        reject(exit_code::usage, {fmt::format("{} needs a value", detail),
                                  {detail},
                                  fmt::format("give {}={}", detail, option->argument)});
      }
    }
    invocation_.arguments.assign(
        arguments.begin() + static_cast<std::ptrdiff_t>(std::min(at, arguments.size())), arguments.end());
  }

  void set_text(Subcommand subcommand) { invocation_.subcommand = subcommand; }

  void read_variables() {
    for (const std::string& entry : node_.environment().entries()) {
      if (!entry.starts_with(variable_prefix)) continue;
      const std::string_view name = entry_name(entry);
      if (name.empty() || name == version_variable) continue;
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

  void unknown_variable(std::string_view name) {
    const OptionInfo* near = nullptr;
    std::vector<std::string_view> known;
    for (const OptionInfo& option : options) {
      if (option.has_variable) known.push_back(option.name);
    }
    if (const auto found = nearest(name.substr(variable_prefix.size()), known); !found.empty())
      near = find_option(found);
    reject(
        exit_code::configuration,
        {fmt::format("unknown variable {}", rankshim::quoted(name)),
         {std::string(name)},
         near == nullptr ? fmt::format("unset {}; rankshim --help lists the settings", rankshim::quoted(name))
                         : fmt::format("did you mean {}?", variable_name(*near))});
  }

  void read_config() {
    // The file's own name has no key, so the command line and the variable have already been read.
    const auto& chosen = invocation_.settings[Option::config];
    const std::string path = chosen ? chosen->text : std::string(info(Option::config).fallback);
    const std::optional<std::string> document = node_.file(path);
    if (!document) {
      if (!chosen && (errno == ENOENT || errno == ENOTDIR)) return;
      const bool for_want = errno == ENOMEM || errno == EMFILE || errno == ENFILE || errno == ENOSYS;
      reject(for_want ? exit_code::system : exit_code::configuration,
             {fmt::format("the configuration file {} cannot be read ({})", rankshim::quoted(path),
                          why_unreadable(errno)),
              {chosen ? chosen->detail : path},
              chosen ? fmt::format("correct {}", chosen->detail)
                     : fmt::format("make {} readable, or remove it", path)});
      return;
    }
    if (document->size() > largest_file) {
      reject(exit_code::configuration,
             {fmt::format("the configuration file {} is larger than 1 MiB", rankshim::quoted(path)),
              {path},
              "shorten it"});
      return;
    }
    if (const auto line = line_of_too_many_dots(*document)) {
      reject(exit_code::configuration,
             {fmt::format("{}:{}: there are more dots outside strings than a configuration can need", path,
                          *line),
              {path},
              "write one key on each line"});
      return;
    }
    const toml::parse_result parsed = toml::parse(*document, path);
    if (!parsed) {
      const toml::parse_error& error = parsed.error();
      reject(exit_code::configuration,
             {fmt::format("{}:{}: {}", path, error.source().begin.line, error.description()),
              {path},
              fmt::format("correct {}", path)});
      return;
    }
    for (const auto& [key, node] : parsed.table()) read_key(path, key.str(), node);
  }

  void read_key(const std::string& path, std::string_view key, const toml::node& node) {
    const OptionInfo* option = find_option(key);
    const std::string where = fmt::format("{}:{}", path, key);
    const std::string line = fmt::format("{}:{}", path, node.source().begin.line);
    if (option == nullptr || !option->has_key) {
      std::vector<std::string_view> known;
      for (const OptionInfo& candidate : options) {
        if (candidate.has_key) known.push_back(candidate.name);
      }
      const std::string_view near = nearest(key, known);
      reject(exit_code::configuration,
             {fmt::format("{}: unknown key {}", line, rankshim::quoted(key)),
              {where},
              near.empty() ? fmt::format("remove {} from {}", rankshim::quoted(key), path)
                           : fmt::format("did you mean {}?", near)});
      return;
    }
    if (const std::optional<std::string> text = key_text(*option, node)) {
      if (!text->empty()) take(*option, *text, Origin::config, where);
      return;
    }
    reject(exit_code::configuration, {fmt::format("{}: {} must be {}", line, key, wanted(*option)),
                                      {where},
                                      fmt::format("correct {} in {}", key, path)});
  }

  /// A string, number, boolean or list of such as the text that a variable would hold.
  static std::optional<std::string> key_text(const OptionInfo& option, const toml::node& node) {
    if (const auto* text = node.as_string()) return text->get();
    if (const auto* number = node.as_integer()) return fmt::format("{}", number->get());
    if (const auto* truth = node.as_boolean()) return truth->get() ? "true" : "false";
    const toml::array* list = node.as_array();
    if (list == nullptr) return std::nullopt;
    const char between = between_values(option.kind);
    std::string joined;
    for (const toml::node& item : *list) {
      const auto text = item.is_array() ? std::nullopt : key_text(option, item);
      if (!text) return std::nullopt;
      if (!joined.empty()) joined += between == '\0' ? ',' : between;
      joined += *text;
    }
    return joined;
  }

  void check_subcommand() {
    const auto& arguments = invocation_.arguments;
    const auto usage = [&](std::string what, std::string fix) {
      reject(exit_code::usage, {std::move(what), {}, std::move(fix)});
    };
    const bool takes_command =
        invocation_.subcommand == Subcommand::run || invocation_.subcommand == Subcommand::explain;
    const std::string_view first =
        takes_command && !arguments.empty() ? std::string_view(arguments[0]) : std::string_view{};
    if (first.starts_with("--") && find_option(first.substr(2, first.substr(2).find('='))) != nullptr) {
      usage(fmt::format("the command begins with {}, which is an option of rankshim", first),
            "give the options before --, and the command behind it");
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
        if (!arguments.empty())
          usage(fmt::format("unexpected argument {}", rankshim::quoted(arguments[0])), "see rankshim --help");
        break;
      case Subcommand::platforms:
        if (!arguments.empty() && arguments[0] == "check") {
          if (arguments.size() != 2) usage("platforms check needs one file", "rankshim platforms check FILE");
        } else if (arguments.size() > 1)
          usage(fmt::format("unexpected argument {}", rankshim::quoted(arguments[1])), "name one profile");
        break;
      case Subcommand::install:
        if (arguments.size() != 1 || arguments[0].empty())
          usage("install needs one folder", "rankshim install DIR");
        break;
      case Subcommand::explain:
      case Subcommand::help:
      case Subcommand::version:
      case Subcommand::licenses:
        break;
    }
    if (invocation_.settings[Option::env_file] && invocation_.subcommand != Subcommand::explain)
      usage("--env-file is for explain", "leave it out");
    if (invocation_.settings[Option::container] && !invocation_.settings[Option::env_file])
      usage("--container is for explain --env-file", "leave it out, or give --env-file the Pod");
    check_format();
    if (invocation_.subcommand != Subcommand::status && invocation_.settings[Option::phase])
      usage("--phase is for status", "leave it out");
  }

  /// What is asked to stop must hear of it before it is killed.
  void check_delay() {
    const auto &delay = invocation_.settings[Option::pre_stop_delay],
               &grace = invocation_.settings[Option::grace];
    const auto waits = invocation_.settings.time(Option::pre_stop_delay),
               lasts = invocation_.settings.time(Option::grace);
    if (!waits || !lasts || waits->count() == 0 || *waits < *lasts) return;
    const bool typed = delay->origin == Origin::option || grace->origin == Origin::option;
    reject(typed ? exit_code::usage : exit_code::configuration,
           {fmt::format("{}={} is not below {}={}: the command would be killed before it is asked to stop",
                        delay->detail, delay->text, grace->detail, grace->text),
            {delay->detail, grace->detail},
            "make the delay shorter, or the grace longer"});
  }

  void check_format() {
    auto& format = invocation_.settings[Option::format];
    std::string_view choices;
    if (invocation_.subcommand == Subcommand::explain) choices = "text|json";
    if (invocation_.subcommand == Subcommand::env) choices = "sh|json|dotenv";
    if (!format) {
      if (!choices.empty())
        format = Value{std::string(choices.substr(0, choices.find('|'))), Origin::fallback, ""};
      return;
    }
    if (is_one_of(format->text, choices)) return;
    reject(exit_code::usage,
           {choices.empty() ? "--format is for explain and env"
                            : fmt::format("--format={} is not known", rankshim::quoted(format->text)),
            {"--format"},
            choices.empty() ? "leave it out" : fmt::format("use one of {}", with_commas(choices))});
  }

  const Node& node_;
  Invocation invocation_;
  Rejected rejected_;
};

struct Unit {
  std::string_view suffix;
  std::int64_t milliseconds;
};
constexpr std::array<Unit, 4> units = {{{"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}}};

bool all_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

std::string_view Settings::text(Option option) const {
  const auto& value = (*this)[option];
  return value ? std::string_view(value->text) : std::string_view{};
}

std::optional<std::chrono::milliseconds> Settings::time(Option option) const {
  const auto& value = (*this)[option];
  return value ? parse_time(value->text) : std::nullopt;
}

std::variant<Invocation, Rejected> read_settings(const std::vector<std::string>& arguments,
                                                 const Node& node) {
  return Reader(node).read(arguments);
}

std::optional<std::chrono::milliseconds> parse_time(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number < 0) return std::nullopt;
  std::string_view suffix(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (suffix.empty()) suffix = "s";
  const auto unit =
      std::find_if(units.begin(), units.end(), [&](const Unit& u) { return u.suffix == suffix; });
  constexpr std::int64_t longest = std::int64_t{100} * 365 * 24 * 3'600'000;
  if (unit == units.end() || number > longest / unit->milliseconds) return std::nullopt;
  return std::chrono::milliseconds(number * unit->milliseconds);
}

std::string format_time(std::chrono::milliseconds time) {
  const auto unit = std::find_if(units.rbegin(), units.rend(), [&](const Unit& u) {
    return time.count() != 0 && time.count() % u.milliseconds == 0;
  });
  return unit == units.rend() ? "0s" : fmt::format("{}{}", time.count() / unit->milliseconds, unit->suffix);
}

std::string subcommand_hint(std::string_view command) {
  return find_subcommand(command) == nullptr
             ? std::string()
             : fmt::format("; a subcommand is the first word: rankshim {0} [OPTIONS]", command);
}

bool is_service_link_name(std::string_view name) {
  if (name.ends_with("_SERVICE_HOST") || name.ends_with("_SERVICE_PORT") || name == "RANKSHIM_SERVICE_HOST")
    return true;
  if (name.find("_SERVICE_PORT_") != std::string_view::npos) return true;  // a named port
  const auto port = name.find("_PORT_");  // NAME_PORT_80_TCP[_PROTO|_PORT|_ADDR]
  if (port == std::string_view::npos) return false;
  std::string_view rest = name.substr(port + 6);
  const auto digits = rest.substr(0, rest.find('_'));
  if (!all_digits(digits) || digits.size() == rest.size()) return false;
  rest = rest.substr(digits.size() + 1);
  for (const std::string_view protocol : {"TCP", "UDP", "SCTP"}) {
    if (!rest.starts_with(protocol)) continue;
    const std::string_view tail = rest.substr(protocol.size());
    return tail.empty() || tail == "_PROTO" || tail == "_PORT" || tail == "_ADDR";
  }
  return false;
}

}  // namespace rankshim
