// LLVM's writer of object files can compress debug information, and kernels have none: these functions are never
// called, and the library needs neither zlib nor zstd.
#include <cstdlib>

extern "C" {
#define SAKER_NEVER(name) \
  void* name() { std::abort(); }
SAKER_NEVER(ZSTD_CCtx_setParameter)
SAKER_NEVER(ZSTD_compress2)
SAKER_NEVER(ZSTD_compressBound)
SAKER_NEVER(ZSTD_createCCtx)
SAKER_NEVER(ZSTD_freeCCtx)
SAKER_NEVER(ZSTD_isError)
SAKER_NEVER(compress2)
SAKER_NEVER(compressBound)
SAKER_NEVER(crc32)
SAKER_NEVER(uncompress)
}
