#include <fmt/format.h>

#include <utility>

#include "base/text.h"
#include "settings/settings.h"

namespace rankshim {
namespace {

constexpr std::size_t width = 80;
constexpr std::size_t help_column = 28;

/// Appends `text` to a line that already has `column` columns, broken at blanks so that no line exceeds the
/// width.
void wrap(std::string& out, std::size_t column, std::string_view text) {
  if (column + 1 >= help_column) column = width;
  for (auto word = take_word(text); !word.empty(); word = take_word(text)) {
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

void add_option(std::string& out, const OptionInfo& option) {
  const std::string head = option.kind == ValueKind::boolean
                               ? fmt::format("  --[no-]{}", option.name)
                               : fmt::format("  --{} {}", option.name, option.argument);
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
