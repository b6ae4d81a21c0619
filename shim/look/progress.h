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

/// Asks the workers' own Python about their collectives. It is asked before NCCL (look/ras.h), which does not
/// know which collectives have ended, and waits for stopped processes.
namespace rankshim::look {

inline constexpr std::size_t longest_answer = std::size_t{128} << 10U;
inline constexpr std::size_t most_groups = 64;

/// Asks rankshim's part in each worker's Python (sitecustomize.py, answer_looks) at `folder`/look.PID, and
/// waits at most `patience` for the answers. A worker that does not answer is left out: it has no process
/// group yet, or a C call holds the GIL. Only a process's own answer counts (unix(7), SCM_CREDENTIALS).
/// `operations` also asks for the operation of each group's last collective. A worker needs about 50 ms for
/// that, so it is asked for the numbers first. Must not be cancelled.
boost::asio::awaitable<std::map<pid_t, std::vector<outcome::GroupProgress>>> ask_progress(
    boost::asio::io_context& io, const std::string& folder, const std::vector<pid_t>& pids, bool operations,
    std::chrono::milliseconds patience);

/// The processes that answer there, sorted, including those that have ended since: all that created a process
/// group in this attempt.
std::vector<pid_t> find_answering(const std::string& folder);

/// Parses an answer: a JSON list of groups, each [name, description, members, entered, ended, operation],
/// where members is a list of [first rank, last rank, step]. Returns at most `most_groups`, and skips those
/// that cannot be true; nullopt for anything else.
std::optional<std::vector<outcome::GroupProgress>> parse_progress(std::string_view answer);

}  // namespace rankshim::look
