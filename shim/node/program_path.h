#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rankshim {

/// Where a program is searched for if PATH is not set: musl's default, a superset of glibc's.
inline constexpr std::string_view default_path = "/usr/local/bin:/bin:/usr/bin";

/// The files that execvp(3) tries for a program, in its order: the name in each folder of `path`, where an
/// empty folder is the working directory. A name with a slash is the only candidate itself.
std::vector<std::string> executable_candidates(std::string_view program, std::string_view path);

/// The index of the folder of `path` that a file is in, where the file is written as executable_candidates
/// writes it; the number of folders if it is in none.
std::size_t place_in_path(const std::string& file, std::string_view path);

/// What the kernel does not find when it executes this file, which is there: the interpreter of its first
/// line
/// ("#!/bin/bash"), that one's own, or the dynamic loader of a program. Empty if it is not known.
std::string missing_interpreter(std::string file);

}  // namespace rankshim
