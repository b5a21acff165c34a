// A declaration to compile ProcessGroupGloo.hpp against: see gloo/context.h.
#pragma once
#include <gloo/context.h>
