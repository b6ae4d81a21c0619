#include "supervise/signals.h"

#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstring>
#include <utility>

#include "base/log.h"

namespace rankshim::supervise {
namespace {

constexpr SignalSet all_signals = ~SignalSet{0};

// Constant-initialised to zero, so that no later initialiser overwrites the mask that block_all_signals()
// stores.
constinit SignalSet mask_before = 0;

/// Blocks all signals as early as possible, because for PID 1 the kernel drops every signal that arrives
/// before it is blocked. 101 is the earliest priority that a program may request: this runs before malloc and
/// all other initialisers, on static musl as the third system call.
[[gnu::constructor(101)]] void block_all_signals() { kernel::set_signal_mask(all_signals, &mask_before); }

// Whether SIGCHLD was ignored before the queue changed that; the command inherits it again.
bool child_signal_was_ignored = false;

int open_signal_descriptor() {
  kernel::reserve_standard_descriptors();
  // Block again: before main() a refusal (seccomp) could not be reported, and then no child's end would be
  // noticed.
  loop::throw_on_error(kernel::set_signal_mask(all_signals, nullptr), "sigprocmask");
  const int descriptor = kernel::signal_descriptor(-1, all_signals);
  loop::throw_on_error(descriptor, "signalfd");
  child_signal_was_ignored = kernel::set_ignored(SIGCHLD, false) == 1;
  return descriptor;
}

}  // namespace

SignalSet inherited_mask() { return mask_before; }

bool inherited_as_ignored(int signal) {
  return signal == SIGCHLD ? child_signal_was_ignored : kernel::is_ignored(signal) == 1;
}

void end_with_parent(int signal) {
  const pid_t parent = getppid();
  const int done = kernel::result(prctl(PR_SET_PDEATHSIG, signal, 0, 0, 0));
  if (done < 0)
    log::warn("rankshim cannot arrange to get {} when its parent dies: {}", signal_name(signal),
              std::strerror(-done));
  if (getppid() != parent) kernel::send(getpid(), signal);
}

SignalQueue::SignalQueue(boost::asio::io_context& io)
    : descriptor_(io, open_signal_descriptor()), timer_(io.get_executor()) {}

Signal SignalQueue::take() {
  fill();
  return std::exchange(next_, {}).value_or(Signal{});
}

boost::asio::awaitable<Signal> SignalQueue::next_terminating(Deadline deadline) {
  while (true) {
    for (; fill(); drop()) {
      if (terminates_by_default(next_->number) && !inherited_as_ignored(next_->number)) co_return *next_;
      while (next_->number == SIGCHLD && wait4(-1, nullptr, WNOHANG, nullptr) > 0) continue;  // orphans
    }
    if (deadline && *deadline <= Clock::now()) co_return Signal{};
    co_await wait(deadline);
  }
}

void SignalQueue::hold_real_time(bool hold) {
  kernel::signal_descriptor(descriptor_.native_handle(),
                            hold ? bit(first_real_time_signal) - 1 : all_signals);
}

// The signal that was read stays in a member until a caller takes it. Callers read first and wait afterwards,
// so that a read that fails once is repeated when the descriptor is readable.
bool SignalQueue::fill() {
  signalfd_siginfo info{};
  while (!next_ && read(descriptor_.native_handle(), &info, sizeof info) == sizeof info) {
    const bool by_write = info.ssi_signo == SIGPIPE || info.ssi_signo == SIGXFSZ;
    if (by_write && info.ssi_code == SI_USER && static_cast<pid_t>(info.ssi_pid) == getpid()) continue;
    next_ = Signal{.number = static_cast<int>(info.ssi_signo),
                   .code = info.ssi_code,
                   .sender = info.ssi_pid,
                   .user = info.ssi_uid,
                   .value = info.ssi_ptr};
  }
  return next_.has_value();
}

boost::asio::awaitable<void> SignalQueue::wait(Deadline deadline) {
  if (next_ || std::exchange(woken_, false)) co_return;
  if (deadline) {
    timer_.expires_at(*deadline);
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (error != boost::asio::error::operation_aborted) wake();  // also if the wait was refused
    });
  } else {
    timer_.cancel();
  }
  boost::system::error_code error;
  co_await descriptor_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                                  boost::asio::redirect_error(boost::asio::use_awaitable, error));
  if (!std::exchange(woken_, false) && error)
    throw boost::system::system_error(error);  // cancelled, or refused
}

void SignalQueue::wake() {
  woken_ = true;
  boost::system::error_code ignored;
  descriptor_.cancel(ignored);
}

}  // namespace rankshim::supervise
