#include "supervise/signals.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <set>

#include "supervise/kernel.h"

using rankshim::last_signal;
using rankshim::signal_name;
using rankshim::SignalSet;
using namespace rankshim::supervise;

namespace {

/// Runs a check in a separate process, where signals can be blocked and sent; true if it returned true.
bool in_own_process(const std::function<bool()>& check) {
  const pid_t child = fork();
  if (child == 0) {
    kernel::set_signal_mask(~SignalSet{0}, nullptr);
    _exit(check() ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  return status == 0;
}

/// The signal that `ask` waits for, which is there already.
Signal take(boost::asio::io_context& io, boost::asio::awaitable<Signal> ask) {
  Signal received;
  boost::asio::co_spawn(io, std::move(ask), [&](std::exception_ptr error, Signal signal) {
    if (error) _exit(97);
    received = signal;
  });
  io.restart();
  io.run();
  return received;
}

}  // namespace

TEST_CASE("signals have the names people type", "[signals]") {
  CHECK(signal_name(1) == "SIGHUP");
  CHECK(signal_name(9) == "SIGKILL");
  CHECK(signal_name(15) == "SIGTERM");
  CHECK(signal_name(16) == "SIGSTKFLT");
  CHECK(signal_name(31) == "SIGSYS");
  CHECK(signal_name(32) == "signal 32");
  CHECK(signal_name(34) == "SIGRTMIN");
  CHECK(signal_name(37) == "SIGRTMIN+3");
  CHECK(signal_name(64) == "SIGRTMIN+30");
  std::set<std::string> names;
  for (int signal = 1; signal <= last_signal; ++signal) names.insert(signal_name(signal));
  CHECK(names.size() == 64);
}

TEST_CASE("which signals end a process is what the kernel does", "[signals]") {
  for (int signal = 1; signal <= last_signal; ++signal) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_DUMPABLE, 0);  // no core files
      kernel::set_signal_mask(0, nullptr);
      kernel::set_ignored(signal, false);  // Catch has handlers
      kernel::send(getpid(), signal);
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, WUNTRACED) == child);
    INFO(signal_name(signal));
    CHECK(terminates_by_default(signal) == WIFSIGNALED(status));
    if (WIFSTOPPED(status)) {
      kernel::send(child, SIGKILL);
      waitpid(child, &status, 0);
    }
  }
}

TEST_CASE("all 64 signals are queued, with their sender and value", "[signals]") {
  CHECK(in_own_process([] {
    boost::asio::io_context io(1);
    SignalQueue queue(io);
    for (int signal = 1; signal <= last_signal; ++signal) {
      if (signal == SIGKILL || signal == SIGSTOP) continue;
      kernel::send(getpid(),
                   {signal, SI_QUEUE, getpid(), getuid(), 0x1234567890ULL + static_cast<unsigned>(signal)});
      const Signal got = queue.take();
      if (got.number != signal || got.code != SI_QUEUE || got.sender != getpid() ||
          got.value != 0x1234567890ULL + static_cast<unsigned>(signal)) {
        return false;
      }
    }
    return true;
  }));
}

TEST_CASE("before the command only a signal that would end us counts, and it stays in the queue",
          "[signals]") {
  CHECK(in_own_process([] {
    boost::asio::io_context io(1);
    SignalQueue queue(io);
    kernel::set_ignored(SIGHUP, true);
    for (const int signal : {SIGHUP, SIGCHLD, SIGCONT, SIGWINCH, SIGUSR2}) kernel::send(getpid(), signal);
    return take(io, queue.next_terminating()).number == SIGUSR2 &&
           take(io, queue.next_terminating()).number == SIGUSR2 && queue.take().number == SIGUSR2;
  }));
}

TEST_CASE("held real-time signals stay with the kernel until they are wanted", "[signals]") {
  CHECK(in_own_process([] {
    boost::asio::io_context io(1);
    SignalQueue queue(io);
    queue.hold_real_time(true);
    bool woken = false;
    boost::asio::co_spawn(io, queue.wait({}), [&](const std::exception_ptr&) { woken = true; });
    kernel::send(getpid(), 40);
    io.poll();
    if (woken || queue.take().number != 0) return false;
    queue.hold_real_time(false);
    io.run();
    return woken && queue.take().number == 40;
  }));
}

TEST_CASE("a wait ends by a signal, by its deadline, and when it is cancelled", "[signals]") {
  CHECK(in_own_process([] {
    boost::asio::io_context io(1);
    SignalQueue queue(io);
    boost::asio::cancellation_signal cancel;
    std::optional<bool> woken;
    const auto begin = [&](SignalQueue::Deadline deadline) {
      woken.reset();
      boost::asio::co_spawn(
          io, queue.wait(deadline),
          boost::asio::bind_cancellation_slot(
              cancel.slot(), [&](const std::exception_ptr& cancelled) { woken = !cancelled; }));
      io.restart();
      io.poll();
    };
    begin({});
    kernel::send(getpid(), SIGUSR1);
    io.run();
    if (woken != true || queue.take().number != SIGUSR1) return false;
    begin(SignalQueue::Clock::now() + std::chrono::milliseconds(5));
    io.run();
    if (woken != true || queue.take().number != 0) return false;
    begin({});
    cancel.emit(boost::asio::cancellation_type::terminal);
    io.run();
    return woken == false;
  }));
}

TEST_CASE("our own files never get the numbers of stdin, stdout and stderr", "[signals]") {
  CHECK(in_own_process([] {
    for (const int standard : {0, 1, 2}) close(standard);
    kernel::reserve_standard_descriptors();
    const int next = dup(0);
    char byte = 0;
    return next > 2 && write(2, &byte, 1) < 0 && read(0, &byte, 1) < 0;
  }));
}
