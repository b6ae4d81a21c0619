#pragma once

#include <sys/types.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "outcome/look.h"

/// What the workers' own Python says of their collectives.
namespace rankshim::look {

inline constexpr std::size_t longest_answer = std::size_t{128} << 10U;
inline constexpr std::size_t most_groups = 64;

/// Asks our part in each worker's Python (sitecustomize.py, answer_looks) at `folder`/look.PID, and waits for
/// the answers at most `patience`. Who does not answer is left out: its Python has not imported torch, or a C
/// call holds the GIL. `operations`: what each group's last collective is is wanted too, which takes such a
/// process some 50 ms. Must not be cancelled.
boost::asio::awaitable<std::map<pid_t, std::vector<outcome::GroupProgress>>> ask_progress(
    boost::asio::io_context& io, const std::string& folder, const std::vector<pid_t>& pids, bool operations,
    std::chrono::milliseconds patience);

/// An answer: a JSON list of groups, each [name, description, [[first rank, last rank], …], entered, ended,
/// operation]. At most `most_groups` of them; nullopt if it is anything else, or says what cannot be.
std::optional<std::vector<outcome::GroupProgress>> parse_progress(std::string_view answer);

}  // namespace rankshim::look
