/// A user's profile: the document, then, behind the first NUL, the variables that it is tried on.

#include "platform/profile.h"
#include "node/fake_host_for_test.h"
#include "platform/evaluation.h"
#include "target.h"

FUZZ_TARGET(profile) {
  using namespace rankshim;
  constexpr std::size_t most_variables = 64;
  auto parts = fuzz::split(fuzz::text_of(data, size), '\0', most_variables);
  platform::Arena arena;
  const auto read = platform::read_profile("x", std::move(parts.front()), "x.toml", arena);
  if (const auto* faults = std::get_if<Faults>(&read)) {
    fuzz::check(!faults->empty());
    return 0;
  }
  parts.erase(parts.begin());
  const node::FakeHost host(std::move(parts));
  platform::EvalContext context(host);
  platform::Evaluation(std::get<platform::Profile>(read), context).facts();
  return 0;
}
