#pragma once

#include <boost/asio/io_context.hpp>
#include <optional>

#include "wait/timing.h"

/// Asio's loop, step by step. If the kernel refuses for a second to wait for events (a sandbox that forbids
/// epoll_wait(2) and similar calls, a broken kernel), Asio would retry for ever.
namespace rankshim {

/// Waits for the next handler and runs it, as io_context::run_one. Returns errno if the kernel refuses to
/// wait, else 0.
int run_one(boost::asio::io_context& io);

/// Runs the next handler if there is one, as io_context::poll_one, also while the kernel refuses to wait.
/// Returns whether there was one.
bool poll_one(boost::asio::io_context& io);

/// The only deadline that may be more than 5 minutes away. Asio sleeps for 5 minutes at most, even if nothing
/// is due; with this it sleeps until then, or for ever if there is none. To be called before the timer is
/// set.
void set_far_deadline(std::optional<wait::Clock::time_point> deadline);

}  // namespace rankshim
