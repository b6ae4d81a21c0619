#include "wait/names.h"

#include <algorithm>

#include "base/text.h"

namespace rankshim::wait {

namespace {

constexpr std::size_t longest_name = 253;
constexpr unsigned most_ndots = 15;  // RES_MAXNDOTS

std::string_view without_dots(std::string_view domain) {
  while (domain.starts_with('.')) domain.remove_prefix(1);
  while (domain.ends_with('.')) domain.remove_suffix(1);
  return domain;
}

}  // namespace

ResolvConf read_resolv_conf(std::string_view file, std::string_view host_name) {
  ResolvConf conf;
  bool has_search = false;
  while (!file.empty()) {
    std::string_view line = take_line(file);
    if (line.starts_with('#') || line.starts_with(';')) continue;
    const std::string_view keyword = take_word(line);
    const bool domain = keyword == "domain";
    if (domain || keyword == "search") {  // the last of these lines counts
      conf.search.clear();
      has_search = true;
    }
    for (std::string_view word = take_word(line); !word.empty(); word = take_word(line)) {
      if (word.starts_with('#') || word.starts_with(';')) break;
      if (keyword == "nameserver") {
        conf.servers.emplace_back(word);
      } else if (domain || keyword == "search") {
        conf.search.emplace_back(without_dots(word));
      } else if (keyword == "options") {
        if (word == "use-vc") conf.tcp = true;
        if (const auto ndots = first_number<unsigned>(text_after(word, "ndots:")))
          conf.ndots = std::min(*ndots, most_ndots);
      }
      if (domain || keyword == "nameserver") break;
    }
  }
  const std::size_t dot = host_name.find('.');
  if (!has_search && dot != std::string_view::npos)
    conf.search.emplace_back(without_dots(host_name.substr(dot)));
  return conf;
}

std::vector<std::string> candidates(std::string_view name, const ResolvConf& conf) {
  std::vector<std::string> names;
  const auto add = [&names](std::string candidate) {
    const bool known = std::find(names.begin(), names.end(), candidate) != names.end();
    if (!known && !candidate.empty() && candidate.size() <= longest_name)
      names.push_back(std::move(candidate));
  };
  if (name.ends_with('.')) {
    name.remove_suffix(1);
    add(std::string(name));
    return names;
  }
  const auto dots = static_cast<std::size_t>(std::count(name.begin(), name.end(), '.'));
  if (dots >= conf.ndots) add(std::string(name));
  for (const std::string& domain : conf.search) {
    std::string candidate(name);
    if (!domain.empty()) candidate.append(1, '.').append(domain);
    add(std::move(candidate));
  }
  add(std::string(name));
  return names;
}

std::size_t likeliest(std::string_view name, const ResolvConf& conf,
                      const std::vector<std::string>& candidates) {
  if (name.ends_with('.')) return 0;
  for (std::size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', dot + 1)) {
    const std::string_view end = name.substr(dot + 1);
    for (const std::string& domain : conf.search) {
      if (!domain.starts_with(end) || (domain.size() > end.size() && domain[end.size()] != '.')) continue;
      const std::string whole = std::string(name).append(domain, end.size(), std::string::npos);
      const auto found = std::find(candidates.begin(), candidates.end(), whole);
      if (found != candidates.end()) return static_cast<std::size_t>(found - candidates.begin());
    }
  }
  return 0;
}

}  // namespace rankshim::wait
