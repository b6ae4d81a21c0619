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
      "         COMMAND is a program, script.py, or -m module\n"
      "       rankshim explain [OPTIONS] [--] [COMMAND...]\n"
      "         what would happen and why; starts nothing\n"
      "       rankshim env [OPTIONS]      the variables, for eval \"$(rankshim env)\"\n"
      "       rankshim wait [OPTIONS]     only wait for the master\n"
      "       rankshim platforms [NAME]   the profiles; one in full\n"
      "       rankshim platforms check FILE  whether it is a profile\n"
      "       rankshim install DIR        copy this binary there\n"
      "       rankshim status [--phase PHASE]\n"
      "         what the instance of this container is doing; fails if it has failed\n"
      "       rankshim --version | --help | --licenses\n"
      "\n"
      "Every option --some-name is also the variable RANKSHIM_SOME_NAME and the key\n"
      "some-name in the configuration file; the command line wins over the variable,\n"
      "the variable over the file.\n";
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
      "Exit codes: the command's own, or 128 + its signal; 64 wrong usage; 71 the\n"
      "system refused; 75 the master did not come in time; 78 environment or\n"
      "configuration incomplete or contradictory; 126, 127 the command cannot be\n"
      "executed, is not found.\n";
  return out;
}

std::string_view short_help() {
  return "rankshim: no command was given. It starts PyTorch on this node of a job, as the container's "
         "entrypoint:\n"
         "  rankshim -- train.py --epochs 3    launch a script, as this platform says\n"
         "  rankshim -- bash run.sh            run a program with the job's variables\n"
         "  rankshim explain -- train.py       what would happen and why; starts nothing\n"
         "  rankshim --help                    all options\n";
}

}  // namespace rankshim
