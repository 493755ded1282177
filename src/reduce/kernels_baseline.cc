#define TUTTI_INSTRUCTION_SET baseline
#include "src/reduce/kernel_template.h"
