#include "node/hosts_file.h"

#include "base/text.h"

namespace rankshim {

std::vector<std::string_view> addresses_in_hosts(std::string_view file, std::string_view name) {
  if (name.ends_with('.')) name.remove_suffix(1);
  std::vector<std::string_view> found;
  while (!file.empty()) {
    std::string_view line = take_line(file);
    line = line.substr(0, line.find('#'));
    const std::string_view address = take_word(line);
    std::string_view alias = take_word(line);
    while (!alias.empty() && !same_but_case(alias, name)) alias = take_word(line);
    if (!alias.empty()) found.push_back(address);
  }
  return found;
}

}  // namespace rankshim
