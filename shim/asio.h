#pragma once

/// Boost.Asio's part that is no template is compiled once, in asio.cpp, with two of its loop's habits mended
/// (boost/asio/detail/impl/epoll_reactor.ipp): a loop that has once had a timer would wake up every 300 s for
/// ever, and it does not look whether the kernel lets it watch its timers.

namespace rankshim {

/// The first error with which the kernel refused to let a loop watch something, 0 where there was none. What
/// Asio says itself is counted too.
int loop_refusal();

}  // namespace rankshim
