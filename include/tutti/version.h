// The version of the headers. Ranks built with another version are refused when they meet.

#ifndef TUTTI_VERSION_H_
#define TUTTI_VERSION_H_

#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 1
#define TUTTI_VERSION_PATCH 0
#define TUTTI_VERSION "0.1.0"

#endif  // TUTTI_VERSION_H_
