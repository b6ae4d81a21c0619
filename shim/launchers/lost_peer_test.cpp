#include "launchers/python_error.h"

#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace rankshim;
using namespace rankshim::launchers;

TEST_CASE("a backend's error about a lost worker is distinguished from its other errors") {
  // As printed by NCCL 2.19.3 under torch 2.2, and by gloo and the store of torch 2.13.
  for (const char* lost : {
           "DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1691, "
           "remote process "
           "exited or there was a network error, NCCL version 2.19.3",
           "RuntimeError: ncclRemoteError: A call failed possibly due to a network error or a remote process "
           "exiting "
           "prematurely.",
           "DistBackendError: NCCL communicator was aborted on rank 12. ",
           "DistBackendError: NCCL timeout in communicator initialization.",
           "DistBackendError: [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=16349, "
           "OpType=ALLGATHER, NumelIn=1, NumelOut=2, Timeout(ms)=600000) ran for 600341 milliseconds before "
           "timing out.",
           "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] Read error "
           "[127.0.0.1]:40123: "
           "Connection reset by peer",
           "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:538] Connection closed by "
           "peer [10.99.0.2]:4711. This is typically caused by a remote worker crashing",
           "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:84] Timed out waiting "
           "1800000ms for recv operation to complete",
           "RuntimeError: Application timeout caused pair closure",
           "RuntimeError: Gloo connectFullMesh failed with "
           "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:144] timed out connecting: SO_ERROR: No "
           "route to host, remote=[172.17.0.1]:4711",
           "DistStoreError: wait timeout after 300000ms, keys: /default_pg/0//worker_count",
           "DistStoreError: Timed out after 601 seconds waiting for clients. 2/3 clients joined.",
           "RuntimeError: Timed out initializing process group in store based barrier on rank: 0, for key: "
           "store_based_barrier_key:1 (world_size=4, worker_count=1, timeout=0:30:00)",
           "DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed. Did the remote "
           "server shutdown "
           "or crash?",
           "DistNetworkError: The client socket has timed out after 60000ms while trying to connect to (m, "
           "29500).",
           "RendezvousConnectionError: The connection to the C10d store has failed. See inner exception for "
           "details.",
       }) {
    CAPTURE(lost);
    CHECK(is_error_of_lost_peer(lost));
  }
  for (const char* own : {
           "DistBackendError: NCCL error in: NCCLUtils.hpp:121, unhandled cuda error, NCCL version 2.19.3",
           "RuntimeError: CUDA error: uncorrectable ECC error encountered",
           "BrokenPipeError: [Errno 32] Broken pipe",
           // gloo's own checks: GLOO_SOCKET_IFNAME=^lo, a name without an address, collectives that differ
           "RuntimeError: [enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/device.cc:84] ifa != "
           "nullptr. Unable to find address for: ^lo",
           "RuntimeError: [enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/device.cc:101] rv == "
           "0. "
           "-2 vs 0. ",
           "RuntimeError: [enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:446] "
           "op.preamble.length <= op.nbytes. 20 vs 12. Received data size doesn't match expected size. Is "
           "there a distributed collective mismatch in your code?",
           "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/device.cc:84] Unable to find address "
           "for: ^lo",
           // a script's own connections
           "ConnectionError: Connection closed by peer",
           "redis.exceptions.ConnectionError: Connection closed by peer [10.0.0.9]:6379",
           "TimeoutException: wait timeout after 30s",
           "ConnectionResetError: [Errno 104] Connection reset by peer",
           "RuntimeError: DataLoader worker (pid 17) is killed by signal: Killed.",
       }) {
    CAPTURE(own);
    CHECK_FALSE(is_error_of_lost_peer(own));
  }
}

TEST_CASE("where a worker lost its peer is known although it has raised again while it handled that") {
  const std::string_view own =
      "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nValueError: boom\n\nDuring "
      "handling of the above exception, another exception occurred:\n\n";
  const std::string_view lost =
      "Traceback (most recent call last):\n  File \"a.py\", line 7, in <module>\nRuntimeError: "
      "[../gloo/transport/tcp/unbound_buffer.cc:1] Timed out waiting 6000ms for recv\n";
  const std::string_view saves =
      "\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call "
      "last):\n  File \"a.py\", line 9, in save\nRuntimeError: Application timeout caused pair closure\n";
  const auto joined = [](auto... parts) { return (std::string(parts) + ...); };
  CHECK(traceback_of_loss(joined(lost, saves)) == lost);
  CHECK(traceback_of_loss(joined(own, lost)) == joined(own, lost));
  CHECK(traceback_of_loss(own) == own);
}

TEST_CASE(
    "an agent's error shows whether the other nodes came, and whether the host of their rendezvous is gone") {
  CHECK(is_error_of_lost_host("RendezvousConnectionError: The connection to the C10d store has failed."));
  CHECK_FALSE(is_error_of_lost_host("ValueError: RendezvousConnectionError"));
  CHECK(is_error_of_no_meeting("RendezvousTimeoutError: "));
  CHECK(is_error_of_no_meeting(
      "DistStoreError: Timed out after 901 seconds waiting for clients. 1/2 clients joined."));
  CHECK_FALSE(is_error_of_no_meeting("DistNetworkError: Broken pipe"));
}

TEST_CASE("the peer that was lost is known where the exception names it") {
  for (const auto& [exception, peer] : std::vector<std::pair<std::string_view, std::string_view>>{
           {"RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:538] Connection closed by "
            "peer "
            "[10.99.0.2]:4711. GLHF! 🏖️",
            "10.99.0.2"},
           {"RuntimeError: Connection closed by peer [fd00::2]:4711", "fd00::2"},
           {"RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] Read error "
            "[127.0.0.1]:29575: Connection reset by peer. This is typically caused by a remote worker "
            "hanging",
            "127.0.0.1"},
           {"RuntimeError: [gloo/transport/tcp/pair.cc:361] writev [10.0.0.2]:4711: Broken pipe", "10.0.0.2"},
           {"DistNetworkError: recvValue failed on SocketImpl(fd=3, addr=[a]:1, remote=[b]:29500): Failed to "
            "recv, "
            "got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?",
            "b"},
           {"DistNetworkError: The client socket has timed out after 60000ms while trying to connect to "
            "(job-master-0, 29500).",
            "job-master-0"},
           {"ConnectionError: Connection closed by peer", ""}}) {
    CHECK(peer_in(exception) == peer);
  }
}

TEST_CASE("the ranks whose collectives differ are known where torch says so") {
  const auto ranks = ranks_that_differ(
      "RuntimeError: Detected mismatch between collectives on ranks. Rank 10 is running collective: "
      "CollectiveFingerPrint(SequenceNumber=2, OpType=ALLREDUCE, TensorShape=[1]), but Rank 3 is running "
      "collective: CollectiveFingerPrint(SequenceNumber=2, OpType=ALLREDUCE, TensorShape=[7]).");
  REQUIRE(ranks);
  CHECK(*ranks == std::pair(10U, 3U));
  for (const char* const other : {"", "RuntimeError: Rank 1 is here, but Rank 2 is not",
                                  "Detected mismatch between collectives on ranks. Rank ",
                                  "Detected mismatch between collectives on ranks. Rank 1 is running "
                                  "collective: X, but Rank 99999999999 is"})
    CHECK_FALSE(ranks_that_differ(other));
}

TEST_CASE("an exception's line loses the places in torch's sources") {
  CHECK(in_plain_words(
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:538] Connection closed by "
            "peer [10.99.0.2]:4711. GLHF! 🏖️") ==
        "RuntimeError: Connection closed by peer [10.99.0.2]:4711.");
  CHECK(in_plain_words("DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.cpp:94, "
                       "remote process exited or there was a network error, NCCL version 2.21.5\nmore") ==
        "DistBackendError: NCCL error: remote process exited or there was a network error, NCCL version "
        "2.21.5");
  CHECK(in_plain_words("ValueError: train.py:12 is [a:1] fine") == "ValueError: train.py:12 is [a:1] fine");
}

TEST_CASE("an exception that torch raises again says what it was in the process where it was raised") {
  constexpr std::string_view traceback =
      "Original Traceback (most recent call last):\n"
      "  File \"/app/data.py\", line 7, in __getitem__\n    raise DecodeError(name)\n";
  const auto raised = [&](std::string_view first, std::string_view last) {
    return in_plain_words(std::string(first) + "\n" + std::string(traceback) + std::string(last));
  };
  CHECK(raised("ValueError: Caught ValueError in DataLoader worker process 0.", "ValueError: boom\n") ==
        "ValueError: boom (in DataLoader worker process 0)");
  CHECK(raised("RuntimeError: Caught DecodeError in DataLoader worker process 1.",
               "images.DecodeError: a: b\nof two lines\n") ==
        "images.DecodeError: a: b (in DataLoader worker process 1)");
  CHECK(raised("KeyError: Caught KeyError in pin memory thread for device 0.", "KeyError\n") ==
        "KeyError (in pin memory thread for device 0)");
  CHECK(in_plain_words(
            "ProcessRaisedException: \n\n-- Process 1 terminated with the following error:\n"
            "Traceback (most recent call last):\n  File \"x.py\", line 7, in f\nKeyError: 'in spawn'\n") ==
        "KeyError: 'in spawn' (in a process that it spawned)");
  constexpr std::string_view cut = "ValueError: Caught ValueError in DataLoader worker process 0.";
  CHECK(raised(cut, "") == cut);  // at the end of a file that was too large
  CHECK(in_plain_words("ValueError: Caught nothing") == "ValueError: Caught nothing");
}
