/// The configuration file, NUL, variables and words of the command line.

#include "node/fake_host_for_test.h"
#include "settings/settings.h"
#include "target.h"

FUZZ_TARGET(configuration) {
  using namespace rankshim;
  constexpr std::size_t most_words = 32;
  auto parts = fuzz::split(fuzz::text_of(data, size), '\0', most_words);
  const std::string file = parts.front();
  parts.erase(parts.begin());
  node::FakeHost host(parts);
  host.files["/etc/rankshim.toml"] = file;
  const auto read = settings::read_settings(parts, host);
  if (const auto* rejected = std::get_if<settings::Rejected>(&read)) fuzz::check(!rejected->faults.empty());
  return 0;
}
