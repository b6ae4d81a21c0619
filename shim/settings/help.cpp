#include <spdlog/fmt/fmt.h>

#include "settings/settings.h"

namespace rankshim {
namespace {

constexpr std::size_t width = 80;
constexpr std::size_t help_column = 28;

/// Appends `text` to a line that already reaches `used`, broken at blanks so that no line passes the width.
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
  std::string out =
      "rankshim: a container's entrypoint that launches PyTorch on any platform\n"
      "\n"
      "usage: rankshim [OPTIONS] [--] COMMAND [ARG...]\n"
      "         run COMMAND: a program, script.py, or -m module\n"
      "       rankshim explain [OPTIONS] [--] [COMMAND...]\n"
      "         print what would happen and why, without starting anything\n"
      "       rankshim env [OPTIONS]\n"
      "         print the variables, for eval \"$(rankshim env)\"\n"
      "       rankshim wait [OPTIONS]\n"
      "         wait for the master, and do nothing else\n"
      "       rankshim platforms [NAME]\n"
      "         list the profiles, or print one\n"
      "       rankshim platforms check FILE\n"
      "         check that FILE is a profile\n"
      "       rankshim install DIR\n"
      "         copy this binary to DIR\n"
      "       rankshim status [--phase PHASE]\n"
      "         print what this container's rankshim is doing; fail if it has failed\n"
      "       rankshim --version | --help | --licenses\n"
      "\n"
      "Every option --some-name is also the variable RANKSHIM_SOME_NAME and the key\n"
      "some-name in the configuration file. The command line overrides the variable,\n"
      "and the variable overrides the file. Defaults are in brackets.\n";
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
  out +=
      "\n"
      "Exit codes: the command's own, or 128 + its signal; 64: wrong usage; 71: the\n"
      "system refused a resource; 75: the master could not be reached in time; 78: the\n"
      "environment or the configuration is incomplete or contradictory; 126: the\n"
      "command cannot be executed; 127: the command was not found.\n";
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
