#include "launchers/by_name/named_launcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "base/files.h"
#include "base/text.h"
#include "base/toml.h"
#include "launchers/native/workers.h"
#include "launchers/torchrun/inner_torchrun.h"
#include "node/process.h"
#include "platform/recognise.h"

namespace rankshim::launchers {
namespace {

using Values = Placeholders;

constexpr EmbeddedFile builtins[] = {
#include "builtin_launchers.inc"
};

constexpr auto keys =
    std::to_array<std::string_view>({"starts", "unless", "flags", "first", "others", "set", "hostfile",
                                     "warning", "without_accelerators", "elastic"});
constexpr auto known_placeholders =
    std::to_array<std::string_view>({"nnodes", "node_rank", "local_world_size", "world_size", "rank",
                                     "master_addr", "master_port", "master", "run_id", "hostfile"});

class LauncherFileReader : public TomlDocument {
 public:
  using TomlDocument::TomlDocument;

  void read(const toml::table& top, LauncherFile& file) {
    reject_unknown(top, keys);
    read_texts(top, "starts", file.starts);
    read_texts(top, "unless", file.unless);
    read_texts(top, "flags", file.flags);
    read_texts(top, "first", file.first);
    read_texts(top, "others", file.others);
    file.hostfile = read_text(top, "hostfile");
    file.warning = read_text(top, "warning");
    file.without_accelerators = read_text(top, "without_accelerators");
    if (const auto* variables = get<toml::table>(top, "set", "a table")) {
      for (const auto& [name, value] : *variables) file.set.emplace_back(name.str(), checked(value));
    }
    if (const auto* elastic = get<toml::value<bool>>(top, "elastic", "true or false"))
      file.elastic = elastic->get();
    if (file.starts.empty())
      fault(1, "'starts' is missing or empty", "write the words that start the launcher");
  }

 private:
  template <class Text>
  void read_texts(const toml::table& top, std::string_view key, std::vector<Text>& texts) {
    const toml::node* node = top.get(key);
    if (node == nullptr) return;
    const auto take = [&](const toml::node& one) {
      const std::string text = checked(one);
      if (std::is_same_v<Text, DescribedFlag> && !text.starts_with('-'))
        fault(one, text + " is not a flag", "begin it with - or --");
      texts.emplace_back(text);
    };
    if (const auto* array = node->as_array()) {
      for (const toml::node& one : *array) take(one);
    } else {
      take(*node);
    }
  }

  std::string read_text(const toml::table& top, std::string_view key) {
    std::vector<std::string> texts;
    read_texts(top, key, texts);
    return joined(texts, " ");
  }

  /// A single-line text whose names in braces are checked to be placeholders.
  std::string checked(const toml::node& node) {
    const auto* value = node.as_string();
    std::string text = value != nullptr ? value->get() : std::string();
    if (text.empty() || text.find('\n') != std::string::npos)
      fault(node, "this is not one line of text", "write a string");
    for (auto brace = text.find('{'); brace != std::string::npos; brace = text.find('{', brace + 1)) {
      const auto name = std::string_view(text).substr(brace + 1, text.find('}', brace) - brace - 1);
      if (std::ranges::find(known_placeholders, name) == known_placeholders.end())
        fault(node, "there is no {" + std::string(name) + "}", "use one of " + joined(known_placeholders));
    }
    return text;
  }
};

bool same_spelling(std::string_view a, std::string_view b) {
  const auto dash = [](char c) { return c == '_' ? '-' : c; };
  return std::ranges::equal(a, b, {}, dash, dash);
}

bool begins_script(std::string_view word) {
  return word.ends_with(".py") || word == "-m" || word == "--module" || word == "--";
}

/// The index after the launcher's own words, if they begin at `at`; else 0.
std::size_t end_of_words(const std::vector<std::string>& command, std::size_t at,
                         const std::optional<plan::PythonWords>& python, std::string_view start) {
  const bool module = python && python->module;
  if (start.starts_with("-m ") != module) return 0;
  if (module) next_word(start);
  // An installed launcher is a Python script too: `python /usr/bin/deepspeed …`.
  const std::string_view first = python ? std::string_view(python->what) : command[at];
  if (next_word(start) != (module ? first : base_name(first))) return 0;
  at += python ? python->rest : 1;
  for (auto word = next_word(start); !word.empty(); word = next_word(start), ++at)
    if (at == command.size() || command[at] != word) return 0;
  return at;
}

/// The launcher whose own words begin at `at`. A built-in file is read once, and only if it mentions the
/// command's name.
std::optional<NamedLauncher> launcher_at(const std::vector<std::string>& command, std::size_t at,
                                         std::vector<LauncherFile>& files) {
  const auto python = plan::read_python({command.begin() + static_cast<std::ptrdiff_t>(at), command.end()});
  const std::string_view name = base_name(python ? std::string_view(python->what) : command[at]);
  if (name.empty()) return std::nullopt;
  add_builtin_launchers(name, files);
  for (const LauncherFile& file : files) {
    for (const std::string& start : file.starts) {
      if (const auto flags_at = end_of_words(command, at, python, start); flags_at != 0)
        return NamedLauncher{file, start.substr(start.starts_with("-m ") ? 3 : 0), command, flags_at};
    }
  }
  return std::nullopt;
}

std::optional<NamedLauncher> launcher_in_shell(std::string_view text, std::vector<LauncherFile>& files);

/// The launcher that the command is, or that it executes after any number of wrappers. `files` begins with
/// the users' files.
std::optional<NamedLauncher> launcher_in(const std::vector<std::string>& command,
                                         std::vector<LauncherFile>& files) {
  const std::vector<std::size_t> starts = plan::possible_starts(command);
  for (const std::size_t at : starts)
    if (auto found = launcher_at(command, at, files)) return found;
  if (starts.empty() || !node::is_shell(base_name(command[starts.back()]))) return std::nullopt;
  const auto option =
      std::find_if(command.begin() + static_cast<std::ptrdiff_t>(starts.back()), command.end(),
                   [](const std::string& one) { return one.starts_with('-') && one.ends_with('c'); });
  if (command.end() - option < 2) return std::nullopt;
  return launcher_in_shell(option[1], files);
}

/// The same for the text of `bash -c`, `cd /x && accelerate launch …`. Quotes are ignored, because only a
/// shell could interpret them.
std::optional<NamedLauncher> launcher_in_shell(std::string_view text, std::vector<LauncherFile>& files) {
  while (!text.empty()) {
    const auto end = std::min(text.find_first_of(";&|(){}\n"), text.size());
    std::string part(text.substr(0, end));
    std::erase_if(part, [](char c) { return c == '"' || c == '\''; });
    std::vector<std::string> words;
    std::string_view rest = part;
    for (auto word = next_word(rest); !word.empty(); word = next_word(rest)) words.emplace_back(word);
    if (auto found = launcher_in(words, files)) {
      found->in_shell = true;
      return found;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return std::nullopt;
}

/// Completes a launcher's command from the launcher's file, respecting what the user gave.
class Filler {
 public:
  Filler(const NamedLauncher& launcher, const plan::LaunchInput& input, std::vector<std::string>& warnings)
      : warnings_(warnings),
        input_(input),
        launcher_(launcher),
        file_(launcher.file),
        values_(values_with({})) {}

  /// The completed launcher; null if it needs nothing, or nothing that rankshim could add.
  [[nodiscard]] std::shared_ptr<const Launcher> fill() {
    if (has_one_of(file_.unless)) return nullptr;
    if (!file_.warning.empty()) warn(file_.warning);
    if (!file_.flags.empty() && !takes_flags()) return nullptr;
    take_given();
    const bool warns = !file_.without_accelerators.empty() && number(values_, "local_world_size") > 1;
    if (warns && !input_.host.accelerators()) warn(file_.without_accelerators);
    if (!launcher_.in_shell) add_flags();
    for (const auto& [name, value] : file_.set) {
      if (input_.host.environment().get(name)) continue;
      filled_.variables.emplace_back(name, filled_in(value, values_));
      filled_.file = file_.path;
    }
    if (filled_.file.empty()) return nullptr;
    filled_.joins_nodes = !launcher_.in_shell && !file_.elastic && file_.warning.empty();
    return std::make_shared<FilledLauncher>(std::move(filled_));
  }

 private:
  void warn(std::string_view what) const { warnings_.push_back(fmt::format("{}: {}", launcher_.name, what)); }

  [[nodiscard]] std::optional<std::string_view> given(const DescribedFlag& flag) const {
    return flag.given_in(launcher_.words, launcher_.flags_at);
  }

  /// Whether one of the flags is given, with the value in the file, if there is one.
  [[nodiscard]] bool has_one_of(const std::vector<DescribedFlag>& flags) const {
    return std::ranges::any_of(flags, [this](const DescribedFlag& flag) {
      const auto value = given(flag);
      return value &&
             (flag.value.empty() || flag.value.find('{') != std::string::npos || *value == flag.value);
    });
  }

  /// Whether flags can be added and would have an effect. If not, adds a warning, unless the user gave some.
  [[nodiscard]] bool takes_flags() const {
    if (input_.topology.is<topology::ElasticNode>()) {
      warn("it starts a fixed number of nodes, but this job is elastic: each node may work alone");
      return false;
    }
    if (!launcher_.in_shell) return true;
    if (has_one_of(file_.flags)) return false;
    std::string names;
    for (const DescribedFlag& flag : file_.flags) (names += ' ') += flag.name();
    warn(
        "rankshim does not change a shell's text, and each node works alone unless you write these flags "
        "there:" +
        names);
    return false;
  }

  /// The given values, completed with the platform's, and what follows from them.
  [[nodiscard]] Values values_with(Values given) const {
    Values values = placeholders_of(static_job(input_.topology, input_.settings));
    for (const auto& [name, value] : given) values[name] = value;
    const unsigned workers = number(values, "local_world_size");
    given.try_emplace("rank", std::to_string(number(values, "node_rank") * workers));
    given.try_emplace("world_size", std::to_string(number(values, "nnodes") * workers));
    given.try_emplace("master", host_port(values["master_addr"], values["master_port"]));
    given.merge(values);
    return given;
  }

  [[nodiscard]] static unsigned number(const Values& values, std::string_view name) {
    return topology::parse_count(values.at(name)).value_or(0);
  }

  /// Lets what the user gave replace the platform's value, in other flags too.
  void take_given() {
    Values taken;  // by the names in the file's texts
    for (const auto* flags : {&file_.flags, &file_.first, &file_.others})
      for (const DescribedFlag& flag : *flags) take_one(flag, taken);
    values_ = values_with(std::move(taken));
  }

  void take_one(const DescribedFlag& flag, Values& taken) const {
    const auto value = given(flag);
    const std::string_view name = flag.placeholder();
    if (!value || flag.value.find('{') == std::string::npos || name == "hostfile") return;
    const bool counts = !name.empty() && !name.starts_with("master") && name != "run_id";
    if (counts && !topology::parse_count(*value)) return;  // --devices=auto
    const std::string expected = filled_in(flag.value, values_);
    if (*value != expected && !topology::same_host(*value, expected) && !is_guess(flag.value))
      warn(
          fmt::format("{}={} contradicts the platform's {} (rankshim explain shows where it is from); the "
                      "command's value is used",
                      flag.name(), *value, expected));
    if (!name.empty()) taken[name] = *value;
  }

  /// Whether the value is only rankshim's guess, so that it may differ from what the user wrote.
  [[nodiscard]] bool is_guess(const std::string& value) const {
    const auto has = [&](std::string_view name) { return value.find(name) != std::string::npos; };
    if (has("{run_id}")) return true;
    const bool of_master = has("{master}") || has("{master_port}");
    if (!of_master && !has("world_size}") && !has("{rank}")) return false;
    const auto& known = input_.topology.facts[of_master ? Fact::master_port : Fact::nproc_per_node];
    return !known || known->origin >= Origin::devices;
  }

  void add_flags() {
    const bool first = number(values_, "node_rank") == 0;
    const auto& own_role = first ? file_.first : file_.others;
    const auto& other_role = first ? file_.others : file_.first;
    std::vector<std::string> added;
    for (const DescribedFlag& flag : file_.flags) add_flag(flag, added);
    if (!other_role.empty() && given(other_role.front())) {
      warn(fmt::format("{} is not for node {}, where it is given", other_role.front().name(),
                       values_["node_rank"]));
    } else {
      for (const DescribedFlag& flag : own_role) add_flag(flag, added);
    }
    if (added.empty()) return;
    filled_.file = file_.path;
    filled_.command = launcher_.words;
    filled_.command.insert(filled_.command.begin() + static_cast<std::ptrdiff_t>(launcher_.flags_at),
                           added.begin(), added.end());
  }

  void add_flag(const DescribedFlag& flag, std::vector<std::string>& added) {
    if (given(flag)) return;
    Values other = values_;
    for (unsigned node = 0; flag.placeholder() == "hostfile" && node < number(values_, "nnodes"); ++node) {
      other["node_rank"] = std::to_string(node);
      (filled_.hostfile += filled_in(file_.hostfile, other)) += '\n';
    }
    std::string& word = added.emplace_back(flag.name());
    const std::string text = filled_in(flag.value, values_);
    if (flag.between == '=') (word += '=') += text;
    if (flag.between == ' ') added.push_back(text);
  }

  std::vector<std::string>& warnings_;
  const plan::LaunchInput& input_;
  const NamedLauncher& launcher_;
  const LauncherFile& file_;
  Values values_;
  FilledLauncher::Parts filled_;
};

}  // namespace

std::vector<std::string> FilledLauncher::argv(const LaunchChoice& choice, const plan::LaunchInput& input,
                                              const KnownAtStart& known) const {
  if (parts_.command.empty()) return Launcher::argv(choice, input, known);
  std::vector<std::string> words = parts_.command;
  for (std::string& word : words) {
    if (!parts_.hostfile.empty()) word = filled_in(word, {{"hostfile", known.folder.hostfile()}});
  }
  if (!choice.interpreter.empty()) words.insert(words.begin(), {choice.interpreter, "-u"});
  return words;
}

void FilledLauncher::change_environment(plan::EnvironmentChange& change, const LaunchChoice& choice,
                                        const plan::LaunchInput& input, const OwnFolder& folder) const {
  change.set.insert(change.set.end(), parts_.variables.begin(), parts_.variables.end());
  if (folder.has_site) record_agent_error(change, input, folder);
  Launcher::change_environment(change, choice, input, folder);
}

std::string_view FilledLauncher::lost_without_folder() const {
  return parts_.hostfile.empty() ? Launcher::lost_without_folder() : "the launcher's hosts file is missing";
}

DescribedFlag::DescribedFlag(std::string_view text) {
  const auto end = std::min(text.find_first_of("= "), text.size());
  spellings = text.substr(0, end);
  if (end == text.size()) return;
  between = text[end];
  value = text.substr(end + 1);
}

std::string_view DescribedFlag::name() const {
  return std::string_view(spellings).substr(spellings.rfind('|') + 1);
}

std::string_view DescribedFlag::placeholder() const {
  const bool whole = value.starts_with('{') && value.find('}') == value.size() - 1;
  return whole ? std::string_view(value).substr(1, value.size() - 2) : std::string_view();
}

std::optional<std::string_view> DescribedFlag::given_in(const std::vector<std::string>& words,
                                                        std::size_t from) const {
  std::optional<std::string_view> found;
  for (std::size_t at = from; at < words.size() && !begins_script(words[at]); ++at) {
    const std::string_view word = words[at];
    const std::string_view written = word.substr(0, word.find('='));
    for (std::string_view rest = spellings; !rest.empty();) {
      const std::string_view spelling = split_next(rest, "|");
      if (same_spelling(written, spelling)) {
        const bool is_next = written.size() == word.size() && between != 0 && at + 1 < words.size() &&
                             !begins_script(words[at + 1]);
        found = is_next ? std::string_view(words[at + 1])
                        : word.substr(std::min(written.size() + 1, word.size()));
      } else if (spelling.size() == 2 && word.starts_with(spelling) && all_digits(word.substr(2))) {
        found = word.substr(2);
      }
    }
  }
  return found;
}

LauncherFile read_launcher(std::string_view document, const std::string& path, Faults& faults) {
  LauncherFileReader reader(path, faults);
  LauncherFile file{.path = path};
  if (const auto top = reader.parse(document)) reader.read(*top, file);
  return file;
}

LauncherFile read_launcher_file(const std::string& path, const node::Host& host, Faults& faults) {
  if (const auto document = host.file(path)) return read_launcher(*document, path, faults);
  faults.push_back(platform::unreadable_profile(path));
  return {};
}

std::vector<LauncherFile> users_launchers(std::string_view file, const node::Host& host, Faults& faults) {
  std::vector<LauncherFile> files;
  for (const std::string& path : platform::users_files(file, true, host))
    files.push_back(read_launcher_file(path, host, faults));
  return files;
}

void add_builtin_launchers(std::string_view word, std::vector<LauncherFile>& files) {
  Faults none;
  for (const EmbeddedFile& one : builtins) {  // the first line of each is its `starts`
    if (one.text.substr(0, one.text.find('\n')).find(word) == std::string_view::npos) continue;
    const std::string path = "built-in " + std::string(one.name) + ".toml";
    if (std::ranges::find(files, path, &LauncherFile::path) == files.end())
      files.push_back(read_launcher(one.text, path, none));
  }
}

bool starts_named_launcher(std::string_view text) {
  // Called at every start on several nodes, where parsing all files as TOML would take most of the time.
  return std::ranges::any_of(builtins, [text](const EmbeddedFile& one) {
    std::string_view starts = one.text.substr(0, one.text.find('\n'));
    for (split_next(starts, "\""); !starts.empty(); split_next(starts, "\""))
      if (text.find(split_next(starts, "\"")) != text.npos) return true;
    return false;
  });
}

std::optional<NamedLauncher> find_launcher(const plan::LaunchInput& input, Faults& faults) {
  auto files = users_launchers(input.settings.text(settings::Option::profile), input.host, faults);
  return launcher_in(input.command, files);
}

std::shared_ptr<const Launcher> fill_in(const NamedLauncher& launcher, const plan::LaunchInput& input,
                                        std::vector<std::string>& warnings) {
  return input.topology.has_other_nodes() ? Filler(launcher, input, warnings).fill() : nullptr;
}

}  // namespace rankshim::launchers
