#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "look/look.h"
#include "outcome/look.h"

/// Asks NCCL itself how far the collectives of a whole job are, where no worker's Python tells. Its service
/// for such questions, RAS, runs in a thread of each process and needs no Python. It answers in JSON since
/// NCCL 2.28.7 (docs.nvidia.com, NCCL User Guide, "RAS"); older text is for readers, and not parsed.
namespace rankshim::look {

inline constexpr std::size_t longest_ras_answer = std::size_t{32} << 20U;  // 8,192 ranks in six communicators

/// Where RAS listens: at NCCL_RAS_ADDR, if that is an address with a port; otherwise at localhost, port
/// 28028, which may be IPv4 or IPv6. Empty for a host's name.
std::vector<boost::asio::ip::tcp::endpoint> ras_endpoints(std::string_view nccl_ras_addr);

/// Asks one of the processes that listen there for the state of all, and waits at most `patience`. Returns
/// its JSON; empty if there is none. Must not be cancelled.
boost::asio::awaitable<std::string> ask_ras(std::vector<boost::asio::ip::tcp::endpoint> endpoints,
                                            std::chrono::milliseconds patience);

/// The process groups of each rank, according to RAS's JSON. `ranks` is how many the job has, and `own` are
/// this node's: the answer must know all of them, each by its pid, in a communicator of that size, which then
/// tells the ranks of the others. Otherwise it is another job's, and nothing is returned. NCCL counts what a
/// rank has started, by operation, and not what has ended: of each operation, as many as the slowest rank has
/// started are taken as ended. Pure.
std::map<unsigned, std::vector<outcome::GroupProgress>> parse_ras(std::string_view json, std::size_t ranks,
                                                                  const std::vector<InspectedWorker>& own);

}  // namespace rankshim::look
