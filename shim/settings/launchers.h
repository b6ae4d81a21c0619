#pragma once

/// What --launcher can name besides auto and none: the word, and its part of the option's help. A launcher
/// with a row here has a folder in launchers/, and launchers/choose.cpp calls its make_WORD().
#define RANKSHIM_LAUNCHERS(ROW)                                            \
  ROW(torchrun, "")                                                        \
  ROW(launch, "; launch: torchrun with --local_rank passed to the script") \
  ROW(native, "; native: rankshim itself, for programs too")
