#include "topology/python_words.h"

#include "base/text.h"

namespace rankshim {
namespace {

/// "", "3", "3.11": the end of a program's name if several versions are installed.
bool is_version(std::string_view text) {
  return text.find_first_not_of("0123456789.") == std::string_view::npos;
}

bool is_interpreter(std::string_view word) {
  constexpr std::string_view name = "python";
  const std::string_view base = base_name(word);
  return base.starts_with(name) && is_version(base.substr(name.size()));
}

/// The options of an interpreter, starting with the word after its name.
class OptionReader {
 public:
  explicit OptionReader(const std::vector<std::string>& command) : command_(command) {}

  std::optional<PythonWords> read() {
    std::size_t at = 1;
    while (at < command_.size()) {
      const std::string& word = command_[at];
      if (word == "--check-hash-based-pycs") {
        at += 2;
      } else if (word.size() < 2 || word[0] != '-' || word.starts_with("--")) {
        return script(at);
      } else if (const auto letter = word.find_first_of("mcWX", 1); letter == std::string::npos) {
        ++at;
      } else if (word[letter] == 'c') {
        return std::nullopt;
      } else {
        const bool apart = letter + 1 == word.size();  // -m MODULE, not -mMODULE
        if (word[letter] == 'm') return module(at, letter, apart);
        at += apart ? 2 : 1;
      }
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] std::vector<std::string> words_before(std::size_t at) const {
    return {command_.begin(), command_.begin() + static_cast<std::ptrdiff_t>(at)};
  }

  [[nodiscard]] std::optional<PythonWords> script(std::size_t at) const {
    if (command_[at].starts_with('-')) return std::nullopt;
    return PythonWords{command_[at], false, at + 1, words_before(at)};
  }

  [[nodiscard]] std::optional<PythonWords> module(std::size_t at, std::size_t letter, bool apart) const {
    if (apart && at + 1 >= command_.size()) return std::nullopt;
    PythonWords words{apart ? command_[at + 1] : command_[at].substr(letter + 1), true, at + (apart ? 2 : 1),
                      words_before(at)};
    if (letter > 1) words.interpreter.push_back(command_[at].substr(0, letter));  // -um: -u is an option
    return words;
  }

  const std::vector<std::string>& command_;
};

}  // namespace

std::optional<PythonWords> read_python(const std::vector<std::string>& command) {
  if (command.empty()) return std::nullopt;
  if (command[0] == "-m" && command.size() > 1) return PythonWords{command[1], true, 2, {}};
  if (command[0].ends_with(".py")) return PythonWords{command[0], false, 1, {}};
  if (!is_interpreter(command[0])) return std::nullopt;
  return OptionReader(command).read();
}

}  // namespace rankshim
