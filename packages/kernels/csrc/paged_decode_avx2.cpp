#include "vector_avx2.h"

#include "paged_decode_kernel.h"

const DecodeKernels* avx2_decode_kernels(int32_t type) { return kernels_of_type(type); }
