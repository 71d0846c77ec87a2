#include "vector_portable.h"

#include "paged_decode_kernel.h"

const DecodeKernels* portable_decode_kernels(int32_t type) { return kernels_of_type(type); }
