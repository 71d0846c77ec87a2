#include "vector_portable.h"

#include "row_kernels.h"

const RowKernels* portable_row_kernels(int32_t type) { return row_kernels_of(type); }
