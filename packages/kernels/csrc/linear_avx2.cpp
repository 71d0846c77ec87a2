#include "vector_avx2.h"

#include "linear_kernel.h"

const LinearKernels* avx2_linear_kernels(int32_t type) { return linear_kernels_of(type); }
