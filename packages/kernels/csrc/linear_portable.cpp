#include "vector_portable.h"

#include "linear_kernel.h"

const LinearKernels* portable_linear_kernels(int32_t type) { return linear_kernels_of(type); }
