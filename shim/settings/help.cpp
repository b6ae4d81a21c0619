#include <spdlog/fmt/fmt.h>

#include "settings/settings.h"

namespace rankshim {
namespace {

constexpr std::size_t width = 80;
constexpr std::size_t help_column = 28;

/// Appends `text` to a line that already has `used` columns, broken at blanks so that no line exceeds the
/// width.
void wrap(std::string& out, std::size_t used, std::string_view text) {
  if (used + 1 >= help_column) {
    out += '\n';
    used = 0;
  }
  out.append(help_column - used, ' ');
  std::size_t column = help_column;
  while (!text.empty()) {
    const auto blank = text.find(' ');
    const std::string_view word = text.substr(0, blank);
    if (column > help_column && column + 1 + word.size() > width) {
      out += '\n';
      out.append(help_column, ' ');
      column = help_column;
    } else if (column > help_column) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    text = blank == std::string_view::npos ? std::string_view{} : text.substr(blank + 1);
  }
  out += '\n';
}

}  // namespace

std::string help_text() {
  std::string out = "rankshim: a container's entrypoint that launches PyTorch on any platform\n\n";
  std::string_view before = "usage: ";
  for (const Usage& usage : usages) {
    out += fmt::format("{}rankshim{}{} {}\n         {}\n", before, usage.name.empty() ? "" : " ", usage.name,
                       usage.arguments, usage.help);
    before = "       ";
  }
  before = "       rankshim ";
  for (const Usage& text : text_options) {
    out += before;
    out += text.name;
    before = " | ";
  }
  out += "\n\n";
  out += names_text;
  for (const OptionInfo& option : options) {
    if (!option.group.empty()) out += fmt::format("\n{}:\n", option.group);
    const bool boolean = option.kind == ValueKind::boolean;
    std::string head = fmt::format("  --{}{}", boolean ? "[no-]" : "", option.name);
    if (!boolean) head += fmt::format(" {}", option.argument);
    out += head;
    std::string help(option.help);
    if (!option.fallback.empty()) help += fmt::format(" [{}]", option.fallback);
    wrap(out, head.size(), help);
  }
  out += '\n';
  out += exit_codes_text;
  return out;
}

std::string_view short_help() {
  return "rankshim: no command was given. As a container's entrypoint, rankshim starts PyTorch on this "
         "node of a job:\n"
         "  rankshim -- train.py --epochs 3    launch a script as the platform describes the job\n"
         "  rankshim -- bash run.sh            run a program with the job's variables\n"
         "  rankshim explain -- train.py       print what would happen and why\n"
         "  rankshim --help                    list all options\n";
}

}  // namespace rankshim
