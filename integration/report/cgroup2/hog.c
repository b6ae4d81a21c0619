/* hog          takes 96 MiB, and is killed where the limit is lower
   hog softly   lets the kernel take them back: the limit is reached, and nothing is killed */
#include <string.h>
#include <sys/mman.h>

int main(int argc, char** argv) {
  enum { chunk = 1 << 20, chunks = 96 };
  (void)argv;
  for (int i = 0; i < chunks; ++i) {
    char* memory = mmap(NULL, chunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 1;
    memset(memory, 1, chunk);
    if (argc > 1 && madvise(memory, chunk, MADV_FREE) != 0) return 1;
  }
  return 0;
}
