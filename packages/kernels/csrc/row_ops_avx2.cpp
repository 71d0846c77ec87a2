#include "vector_avx2.h"

#include "row_kernels.h"

const RowKernels* avx2_row_kernels(int32_t type) { return row_kernels_of(type); }
