#include "vector_avx512.h"

#include "linear_kernel.h"

const LinearKernels* avx512_linear_kernels(int32_t type) { return linear_kernels_of(type); }
