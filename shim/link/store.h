#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <string_view>

#include "link/roster.h"

/// torch's TCPStore, which has the master's port where no hub does (pytorch,
/// torch/csrc/distributed/c10d/TCPStoreBackend.hpp).
namespace rankshim::link {

/// What a client of the store says first: VALIDATE and the magic number (since torch 2.1).
inline constexpr std::string_view store_greeting("\x00\xce\xf7\x85\x3c", 5);
/// GETNUMKEYS: the store answers with a number of 8 bytes, and nothing has changed.
inline constexpr char store_question = 7;

/// Whether torch's store answers there until then. Throws what the system refuses.
boost::asio::awaitable<bool> is_store(boost::asio::any_io_executor executor,
                                      boost::asio::ip::tcp::endpoint endpoint, Time until);

}  // namespace rankshim::link
