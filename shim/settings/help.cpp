#include <fmt/format.h>

#include <utility>

#include "base/text.h"
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

void add_usage(std::string& out, std::string_view before, const Usage& usage) {
  out += fmt::format("{}rankshim{}{}{}{}\n         {}\n", before, usage.name.empty() ? "" : " ", usage.name,
                     usage.arguments.empty() ? "" : " ", usage.arguments, usage.help);
}

void add_option(std::string& out, const OptionInfo& option) {
  const bool boolean = option.kind == ValueKind::boolean;
  std::string head = fmt::format("  --{}{}", boolean ? "[no-]" : "", option.name);
  if (!boolean) head += fmt::format(" {}", option.argument);
  out += head;
  std::string help(option.help);
  if (!option.fallback.empty()) help += fmt::format(" [{}]", option.fallback);
  wrap(out, head.size(), help);
}

}  // namespace

std::string help_text(std::string_view subcommand) {
  const bool all = subcommand.empty();
  std::string out, takes;
  if (all) out = "rankshim: a container's entrypoint that launches PyTorch on any platform\n\n";
  std::string_view before = "usage: ";
  for (const Usage& usage : usages) {
    if (!all && usage.name != subcommand) continue;
    add_usage(out, std::exchange(before, "       "), usage);
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
    add_option(out, option);
  }
  return out.append("\n").append(all ? exit_codes_text : "rankshim --help lists all options.\n");
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
