#pragma once

namespace rankshim::supervise {

/// Unmaps this program's code and constants. The kernel maps them again where they are used, 64 KiB at a time
/// (fault-around), from its page cache: what only a start needs does not count as memory of an idle rankshim.
/// If the kernel refuses this, nothing changes. It takes a few microseconds, and so do the faults that
/// follow.
void unmap_start_pages();

}  // namespace rankshim::supervise
