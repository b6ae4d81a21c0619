#include "supervise/kernel.h"
#include "supervise/signals.h"

namespace rankshim::supervise {
namespace {

// Zero by constant initialisation, so that no later initialiser overwrites the mask that this one stores.
constinit SignalSet mask_before = 0;

/// For PID 1 the kernel drops every signal that arrives before it is blocked. 101 is the earliest priority
/// that a program may request: this runs before malloc and all other initialisers, on static musl as the
/// third system call.
[[gnu::constructor(101)]] void block_all_signals() { kernel::set_signal_mask(~SignalSet{0}, &mask_before); }

}  // namespace

SignalSet inherited_mask() { return mask_before; }

}  // namespace rankshim::supervise
