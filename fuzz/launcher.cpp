/// A user's file for a launcher: the document, then, behind the first NUL, the words of a command.

#include "launchers/by_name/named_launcher.h"
#include "target.h"

FUZZ_TARGET(launcher) {
  using namespace rankshim;
  constexpr std::size_t most_words = 64;
  auto parts = fuzz::split(fuzz::text_of(data, size), '\0', most_words);
  Faults faults;
  const launchers::LauncherFile file = launchers::read_launcher(parts.front(), "x.launcher.toml", faults);
  parts.erase(parts.begin());
  for (const auto* flags : {&file.unless, &file.flags, &file.first, &file.others}) {
    for (const launchers::DescribedFlag& flag : *flags) {
      const auto value = flag.given_in(parts, 0);
      fuzz::check(!value || flag.placeholder().size() <= flag.value.size());
    }
  }
  return 0;
}
