#include <fmt/format.h>

#include "base/fault.h"
#include "base/files.h"
#include "base/text.h"
#include "base/toml.h"
#include "settings/option_value.h"
#include "settings/settings_reader.h"

namespace rankshim {
namespace {

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

}  // namespace

void SettingsReader::read_key(const std::string& path, std::size_t line_number, std::string_view key,
                              const std::optional<std::string>& text) {
  const OptionInfo* option = find_option(key);
  const std::string where = fmt::format("{}:{}", path, key);
  const std::string line = fmt::format("{}:{}", path, line_number);
  if (option == nullptr || !option->has_key) {
    const std::string_view near = nearest_option(key, &OptionInfo::has_key);
    reject(exit_code::configuration,
           {Anchor::unknown_setting,
            fmt::format("{}: unknown key {}{}", line, in_quotes(key), and_nearest(near)),
            {where},
            fmt::format("{} {} in {}", near.empty() ? "remove" : "correct or remove", in_quotes(key), path)});
    return;
  }
  if (text) {
    if (!text->empty()) take(*option, *text, Origin::config, where);
    return;
  }
  reject(exit_code::configuration, {Anchor::value,
                                    fmt::format("{}: {} must be {}", line, key, wanted(*option)),
                                    {where},
                                    fmt::format("correct {} in {}", key, path)});
}

void SettingsReader::read_config() {
  // The key `config` does not exist in the file, so the command line and the variable have already been read.
  const auto& chosen = invocation_.settings[Option::config];
  const std::string path = chosen ? chosen->text : std::string(info(Option::config).fallback);
  const auto read = node_.read(path);
  if (const auto* refusal = std::get_if<Unreadable>(&read)) {
    if (!chosen && refusal->is_absent()) return;
    reject(refusal->is_for_want() ? exit_code::system : exit_code::configuration,
           {Anchor::config_file,
            fmt::format("the configuration file {} cannot be read ({})", in_quotes(path), refusal->why()),
            {chosen ? chosen->detail : path},
            chosen ? fmt::format("correct {}", chosen->detail)
                   : fmt::format("make {} readable, or remove it", path)});
    return;
  }
  read_config(path, std::get<std::string>(read));
}

void SettingsReader::read_config(const std::string& path, const std::string& document) {
  if (document.size() > largest_file) {
    reject(exit_code::configuration,
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
    reject(exit_code::configuration, std::move(fault));
  }
  if (!top) return;
  for (const auto& [key, node] : *top) {
    const OptionInfo* option = find_option(key.str());
    read_key(path, node.source().begin.line, key.str(),
             option == nullptr ? std::nullopt : key_text(*option, node));
  }
}

}  // namespace rankshim
