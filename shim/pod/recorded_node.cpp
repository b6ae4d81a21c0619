#include "pod/recorded_node.h"

#include <algorithm>
#include <cerrno>

namespace rankshim {

std::variant<std::string, Unreadable> RecordedNode::read(const std::string& path) const {
  if (path == "/etc/hosts" && !recorded_.hosts.empty()) return recorded_.hosts;
  const bool named = std::any_of(command_line_.begin(), command_line_.end(), [&](std::string_view word) {
    return word == path ||
           (word.ends_with(path) && word.size() > path.size() && word[word.size() - path.size() - 1] == '=');
  });
  return named ? here_.read(path) : Unreadable(ENOENT);
}

}  // namespace rankshim
