/// A user's file for a launcher: the document, then, behind the first NUL, the words of a command.

#include "launchers/by_name/flags.h"
#include "launchers/by_name/launcher_file.h"
#include "target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rankshim;
  constexpr std::size_t most_words = 64;
  auto parts = fuzz::split(fuzz::text_of(data, size), '\0', most_words);
  Faults faults;
  const by_name::LauncherFile file = by_name::read_launcher(parts.front(), "x.launcher.toml", faults);
  fuzz::must(file.starts_with("x.launcher.toml\n"));
  parts.erase(parts.begin());
  if (parts.empty()) return 0;
  const by_name::GivenFlags given(parts, 0);
  for (const char key : {by_name::key::unless, by_name::key::flags, by_name::key::first, by_name::key::others}) {
    std::string_view rest = file;
    for (auto entry = by_name::take_entry(rest, key); !entry.empty(); entry = by_name::take_entry(rest, key)) {
      const by_name::DescribedFlag flag(entry);
      const auto value = given.value(flag);
      fuzz::must(!value || flag.placeholder().size() <= flag.value.size());
    }
  }
  return 0;
}
