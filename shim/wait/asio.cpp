/// Boost.Asio's part that is no template, compiled once, with two habits of its loop mended
/// (boost/asio/detail/impl/epoll_reactor.ipp): where a timer is due the loop sleeps that long itself, so that
/// there is no timerfd whose setting the kernel could refuse unnoticed, and where none is it does not wake up
/// every 5 minutes.

#define BOOST_ASIO_SOURCE

#include <sys/timerfd.h>

#include <boost/asio.hpp>
#include <boost/asio/detail/epoll_reactor.hpp>
#include <boost/asio/detail/timer_queue_set.hpp>
#include <limits>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"  // Asio's own, which the macro brings here
#define timerfd_create(clock, flags) (-1)
#define wait_duration_msec(most) wait_duration_msec(msec < 0 ? std::numeric_limits<int>::max() : msec)
#include <boost/asio/detail/impl/epoll_reactor.ipp>
#undef wait_duration_msec
#undef timerfd_create
#pragma GCC diagnostic pop

#include <boost/asio/impl/src.hpp>
