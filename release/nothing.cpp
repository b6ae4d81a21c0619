// Linked first, so that zig compiles its C and C++ libraries (100 s in one thread, once for each machine)
// beside our files and not after them.
int main() {}
