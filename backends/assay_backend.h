/* The header of plug-ins, by its path in this tree; an installed assay has it as assay/assay_backend.h alone. */
#include "backends/include/assay/assay_backend.h"
