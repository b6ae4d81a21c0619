/// A user's file for a launcher: the document, then, behind the first NUL, the words of a command.

#include "named/flags.h"
#include "named/launcher_file.h"
#include "target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rankshim;
  constexpr std::size_t most_words = 64;
  auto parts = fuzz::split(fuzz::text_of(data, size), '\0', most_words);
  Faults faults;
  const named::LauncherFile file = named::read_launcher(parts.front(), "x.launcher.toml", faults);
  fuzz::must(file.starts_with("x.launcher.toml\n"));
  parts.erase(parts.begin());
  if (parts.empty()) return 0;
  const named::GivenFlags given(parts, 0);
  for (const char key : {named::key::unless, named::key::flags, named::key::first, named::key::others}) {
    std::string_view rest = file;
    for (auto entry = named::take_entry(rest, key); !entry.empty(); entry = named::take_entry(rest, key)) {
      const named::DescribedFlag flag(entry);
      const auto value = given.value(flag);
      fuzz::must(!value || flag.placeholder().size() <= flag.value.size());
    }
  }
  return 0;
}
