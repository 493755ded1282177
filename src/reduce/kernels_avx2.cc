#define TUTTI_INSTRUCTION_SET avx2
#include "src/reduce/kernel_template.h"
