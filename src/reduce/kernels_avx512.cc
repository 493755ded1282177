#define TUTTI_INSTRUCTION_SET avx512
#include "src/reduce/kernel_template.h"
