#include "node/hosts_file.h"

#include "base/text.h"

namespace rankshim {
namespace {

/// Cuts the next line off the file, without its comment.
std::string_view take_entry(std::string_view& file) {
  const std::string_view line = take_line(file);
  return line.substr(0, line.find('#'));
}

}  // namespace

std::vector<std::string_view> addresses_in_hosts(std::string_view file, std::string_view name) {
  if (name.ends_with('.')) name.remove_suffix(1);
  std::vector<std::string_view> found;
  while (!file.empty()) {
    std::string_view line = take_entry(file);
    const std::string_view address = take_word(line);
    std::string_view alias = take_word(line);
    while (!alias.empty() && !same_but_case(alias, name)) alias = take_word(line);
    if (!alias.empty()) found.push_back(address);
  }
  return found;
}

std::string domain_in_hosts(std::string_view file, std::string_view host) {
  while (!host.empty() && !file.empty()) {
    std::string_view line = take_entry(file);
    take_word(line);  // the address
    for (std::string_view name = take_word(line); !name.empty(); name = take_word(line))
      if (name.starts_with(host) && name.substr(host.size()).starts_with('.'))
        return std::string(name.substr(host.size() + 1));
  }
  return {};
}

}  // namespace rankshim
