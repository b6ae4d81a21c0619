#include "supervise/signals.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <string_view>
#include <system_error>

#include "log/log.h"
#include "supervise/kernel.h"

namespace rankshim::supervise {
namespace {

constexpr SignalSet all_signals = ~SignalSet{0};
constexpr SignalSet real_time_signals = all_signals << (first_real_time_signal - 1);
constexpr int rtmin = 34;  // SIGRTMIN of glibc and of everybody who types it

// x86 and Arm share these numbers (asm-generic/signal.h).
constexpr std::array<std::string_view, first_real_time_signal> names = {
    "",          "SIGHUP",  "SIGINT",    "SIGQUIT", "SIGILL",   "SIGTRAP", "SIGABRT", "SIGBUS",
    "SIGFPE",    "SIGKILL", "SIGUSR1",   "SIGSEGV", "SIGUSR2",  "SIGPIPE", "SIGALRM", "SIGTERM",
    "SIGSTKFLT", "SIGCHLD", "SIGCONT",   "SIGSTOP", "SIGTSTP",  "SIGTTIN", "SIGTTOU", "SIGURG",
    "SIGXCPU",   "SIGXFSZ", "SIGVTALRM", "SIGPROF", "SIGWINCH", "SIGIO",   "SIGPWR",  "SIGSYS"};

constexpr SignalSet harmless_by_default = bit(SIGCHLD) | bit(SIGCONT) | bit(SIGSTOP) | bit(SIGTSTP) |
                                          bit(SIGTTIN) | bit(SIGTTOU) | bit(SIGURG) | bit(SIGWINCH);

// SIGCHLD's own disposition is changed below; what it was is remembered for the command.
bool child_signal_was_ignored = false;

int open_signal_descriptor() {
  kernel::reserve_standard_descriptors();
  const int descriptor = kernel::signal_descriptor(-1, all_signals);
  if (descriptor < 0) throw std::system_error(-descriptor, std::system_category(), "signalfd");
  if (kernel::is_ignored(SIGCHLD) == 1) {
    child_signal_was_ignored = true;
    kernel::set_ignored(SIGCHLD, false);
  }
  return descriptor;
}

}  // namespace

bool inherited_as_ignored(int signal) {
  return signal == SIGCHLD ? child_signal_was_ignored : kernel::is_ignored(signal) == 1;
}

std::string signal_name(int signal) {
  if (signal > 0 && signal < first_real_time_signal)
    return std::string(names[static_cast<std::size_t>(signal)]);
  if (signal > rtmin && signal <= last_signal) return fmt::format("SIGRTMIN+{}", signal - rtmin);
  if (signal == rtmin) return "SIGRTMIN";
  return fmt::format("signal {}", signal);
}

bool ends_by_default(int signal) { return (harmless_by_default & bit(signal)) == 0; }

bool asks_to_stop(int signal) {
  return signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT;
}

SignalQueue::SignalQueue(boost::asio::io_context& io) : descriptor_(io, open_signal_descriptor()) {}

boost::asio::awaitable<Received> SignalQueue::next() {
  co_await fill();
  const Received signal = front();
  ++first_;
  co_return signal;
}

boost::asio::awaitable<Received> SignalQueue::next_ending() {
  while (true) {
    co_await fill();
    const Received signal = front();
    if (ends_by_default(signal.number) && !inherited_as_ignored(signal.number)) co_return signal;
    ++first_;
  }
}

void SignalQueue::hold_real_time(bool hold) {
  kernel::signal_descriptor(descriptor_.native_handle(),
                            hold ? all_signals & ~real_time_signals : all_signals);
}

// What was read lies in a member before anyone is told of it: a cancelled wait leaves it there.
boost::asio::awaitable<void> SignalQueue::fill() {
  if (first_ != end_) co_return;
  const std::size_t bytes =
      co_await descriptor_.async_read_some(boost::asio::buffer(read_), boost::asio::use_awaitable);
  first_ = 0;
  end_ = bytes / sizeof(signalfd_siginfo);
}

Received SignalQueue::front() const {
  const signalfd_siginfo& info = read_[first_];
  return {.number = static_cast<int>(info.ssi_signo),
          .code = info.ssi_code,
          .sender = info.ssi_pid,
          .user = info.ssi_uid,
          .value = info.ssi_ptr};
}

}  // namespace rankshim::supervise
