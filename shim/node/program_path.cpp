#include "node/program_path.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/text.h"

namespace rankshim {
namespace {

std::string read_at(int file, off_t at, std::size_t size) {
  std::string text(size, '\0');
  const ssize_t got = pread(file, text.data(), size, at);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

/// The dynamic loader of an ELF file (elf(5), PT_INTERP); empty if it has none.
template <class Header, class Segment>
std::string loader(int file) {
  Header header{};
  const std::string start = read_at(file, 0, sizeof header);
  if (start.size() != sizeof header) return {};
  std::memcpy(&header, start.data(), sizeof header);
  constexpr std::size_t longest_path = 4096;
  for (unsigned index = 0; index < header.e_phnum; ++index) {
    Segment segment{};
    const std::string text = read_at(
        file, static_cast<off_t>(header.e_phoff + std::uint64_t{index} * header.e_phentsize), sizeof segment);
    if (text.size() != sizeof segment) return {};
    std::memcpy(&segment, text.data(), sizeof segment);
    if (segment.p_type != PT_INTERP) continue;
    const std::string path = read_at(file, static_cast<off_t>(segment.p_offset),
                                     std::min<std::size_t>(segment.p_filesz, longest_path));
    return path.substr(0, path.find('\0'));
  }
  return {};
}

/// What the kernel executes for this file: the word after "#!", or the dynamic loader.
std::string interpreter_of(const std::string& path) {
  constexpr std::size_t longest_line = 256;  // BINPRM_BUF_SIZE
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return {};
  const std::string start = read_at(file, 0, longest_line);
  std::string found;
  if (start.starts_with("#!")) {
    std::string_view line = std::string_view(start).substr(2);
    line = line.substr(0, line.find('\n'));
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    found = line.substr(0, line.find_first_of(std::string_view(" \t\0", 3)));
  } else if (start.starts_with(ELFMAG) && start.size() > EI_CLASS) {
    found = start[EI_CLASS] == ELFCLASS64 ? loader<Elf64_Ehdr, Elf64_Phdr>(file)
                                          : loader<Elf32_Ehdr, Elf32_Phdr>(file);
  }
  close(file);
  return found;
}

}  // namespace

std::vector<std::string> executable_candidates(std::string_view program, std::string_view path) {
  if (program.empty() || program.find('/') != std::string_view::npos) return {std::string(program)};
  std::vector<std::string> candidates;
  for (bool is_last = false; !is_last;) {
    is_last = path.find(':') == std::string_view::npos;
    std::string candidate(take_part(path, ":"));
    if (!candidate.empty()) candidate += '/';
    candidates.push_back(candidate.append(program));
  }
  return candidates;
}

std::size_t place_in_path(const std::string& file, std::string_view path) {
  const auto candidates = executable_candidates(base_name(file), path);
  return static_cast<std::size_t>(std::ranges::find(candidates, file) - candidates.begin());
}

std::string missing_interpreter(std::string file) {
  constexpr unsigned deepest = 5;  // the kernel's own limit (fs/exec.c)
  for (unsigned depth = 0; depth < deepest; ++depth) {
    file = interpreter_of(file);
    if (file.empty() || access(file.c_str(), F_OK) != 0) return file;
  }
  return {};
}

}  // namespace rankshim
