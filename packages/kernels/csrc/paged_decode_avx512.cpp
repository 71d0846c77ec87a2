#include "vector_avx512.h"

#include "paged_decode_kernel.h"

const DecodeKernels* avx512_decode_kernels(int32_t type) { return kernels_of_type(type); }
