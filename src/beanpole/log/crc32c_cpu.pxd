# The processor's own instruction for CRC-32C, where there is one: SSE 4.2 on x86-64, the CRC extension on ARM64. Whether
# the processor has it is asked when the program runs, so that one build serves all.
from libc.stdint cimport uint32_t

cdef extern from * nogil:
    """
    #include <stdint.h>
    #include <string.h>

    #if defined(__x86_64__) && defined(__GNUC__)
    #include <nmmintrin.h>
    #define CRC32C_TARGET __attribute__((target("sse4.2")))
    #define CRC32C_EIGHT(crc, word) ((uint32_t)_mm_crc32_u64(crc, word))
    #define CRC32C_ONE _mm_crc32_u8
    static int crc32c_cpu_has_it(void) { return __builtin_cpu_supports("sse4.2") != 0; }
    #elif defined(__AARCH64EL__) && defined(__linux__) && \\
        ((defined(__clang__) && __clang_major__ >= 16) || (!defined(__clang__) && defined(__GNUC__) && __GNUC__ >= 8))
    #include <arm_acle.h>
    #include <sys/auxv.h>
    #define CRC32C_TARGET __attribute__((target("+crc")))
    #define CRC32C_EIGHT __crc32cd
    #define CRC32C_ONE __crc32cb
    static int crc32c_cpu_has_it(void) { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
    #endif

    #ifdef CRC32C_TARGET
    CRC32C_TARGET static uint32_t crc32c_cpu_extend(uint32_t crc, const unsigned char *data, Py_ssize_t size) {
        uint64_t word;
        for (; size >= 8; data += 8, size -= 8) {
            memcpy(&word, data, 8);
            crc = CRC32C_EIGHT(crc, word);
        }
        while (size-- > 0)
            crc = CRC32C_ONE(crc, *data++);
        return crc;
    }
    #else
    static int crc32c_cpu_has_it(void) { return 0; }
    static uint32_t crc32c_cpu_extend(uint32_t crc, const unsigned char *data, Py_ssize_t size) { return crc; }
    #endif
    """
    bint cpu_has_it "crc32c_cpu_has_it" ()
    uint32_t cpu_extend "crc32c_cpu_extend" (uint32_t remainder, const unsigned char *data, Py_ssize_t size)
