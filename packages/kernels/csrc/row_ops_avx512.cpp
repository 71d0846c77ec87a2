#include "vector_avx512.h"

#include "row_kernels.h"

const RowKernels* avx512_row_kernels(int32_t type) { return row_kernels_of(type); }
