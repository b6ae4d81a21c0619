#pragma once

#include <boost/asio/awaitable.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/fault.h"
#include "launch/job.h"
#include "report/verdict.h"
#include "run/run.h"

/// The steps before the command's start. Each may end the run: by a signal that came meanwhile, too.
namespace rankshim {

/// An end before the command was started.
Verdict ended_before_start(int code, Cause cause, std::string sentence, bool failed = true);

/// The hook that comes before anything is read. Returns how it ended where that ends us.
boost::asio::awaitable<std::optional<Verdict>> run_pre_start(const Run& run);

/// Resolves the job once what the platform has yet to write is there, or how it ended where that never comes.
boost::asio::awaitable<std::variant<Job, Faults, Verdict>> resolve_when_ready(
    const Run& run, const std::vector<std::string>& command);

/// Asks the interpreter of a launcher whether it finds torch, which without importing it takes it
/// milliseconds: who waits for others would learn too late that it cannot take part, and a node alone ends
/// with Python's own 1. Returns how it ended where that ends us; an interpreter that does not answer ends
/// nothing.
boost::asio::awaitable<std::optional<Verdict>> check_python(const Run& run, const Job& job);

/// Waits for the master, as the plan wants it. Returns how it ended where that ends us: the master never
/// came, or a signal did. Else `address` is the master's, where it was looked up, and the job knows who hosts
/// it.
boost::asio::awaitable<std::optional<Verdict>> wait_for_master(const Run& run, Job& job,
                                                               std::optional<std::string>& address);

}  // namespace rankshim
