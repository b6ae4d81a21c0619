/// The hosts file and resolv.conf: a name, NUL, the file.

#include "wait/dns.h"

#include "node/addresses.h"
#include "target.h"

FUZZ_TARGET(names) {
  using namespace rankshim;
  const auto parts = fuzz::split(fuzz::text_of(data, size), '\0', 2);
  const std::string& name = parts.front();
  const std::string& file = parts.back();
  (void)node::literal(name);
  (void)node::addresses_in_hosts(file, name);
  const auto conf = wait::read_resolv_conf(file, name);
  const auto candidates = wait::candidates(name, conf);
  if (!candidates.empty()) fuzz::check(wait::likeliest(name, conf, candidates) < candidates.size());
  return 0;
}
