#include "launchers/torchrun/lost_peer.h"

#include <algorithm>
#include <array>

namespace rankshim {
namespace {

/// Each with the file that writes it (pytorch/pytorch@v2.13.0, its third_party/gloo and NVIDIA/nccl).
constexpr std::array<std::string_view, 14> signs = {
    // gloo/transport/tcp/pair.cc and unbound_buffer.cc put their path before the message: "Connection closed
    // by peer", the kernel's error, "Timed out waiting 1800000ms for recv operation to complete".
    "gloo/transport/",
    "Connection closed by peer",
    "Gloo connectFullMesh failed",  // gloo/rendezvous/context.cc: a worker that never came
    // NVIDIA/nccl src/init.cc, ncclGetErrorString(); torch/csrc/distributed/c10d/NCCLUtils.cpp
    "remote process exited or there was a network error",
    "ncclRemoteError",
    // NCCLUtils.cpp, waitUntilInitialized(): a worker that never came; getNcclComm(): the watchdog gave up
    // before
    "NCCL timeout in communicator initialization",
    "NCCL communicator was aborted",
    // torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, checkTimeout(): the watchdog
    "Watchdog caught collective operation timeout",
    // torch/csrc/distributed/c10d/Utils.hpp: the connection to the store, which is node 0's
    "Connection was likely closed. Did the remote server shutdown or crash?",
    "DistNetworkError: Connection reset by peer",
    "DistNetworkError: Broken pipe",
    // torch/csrc/distributed/c10d/socket.cpp, TCPStore.cpp: a peer that does not answer, or never comes
    "The client socket has timed out",
    "wait timeout after",
    // torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py
    "The connection to the C10d store has failed",
};

}  // namespace

bool is_error_of_lost_peer(std::string_view exception) {
  return std::ranges::any_of(
      signs, [exception](std::string_view sign) { return exception.find(sign) != std::string_view::npos; });
}

bool is_error_of_lost_host(std::string_view exception) {
  return exception.starts_with("RendezvousConnectionError");
}

bool is_error_of_no_meeting(std::string_view exception) {
  return exception.find("RendezvousTimeoutError") != std::string_view::npos ||
         exception.find("waiting for clients") != std::string_view::npos;
}

}  // namespace rankshim
