// What all programs of bench/ do alike: read their flags, and write their results to a file.

#ifndef TUTTI_BENCH_PROGRAM_PROGRAM_H_
#define TUTTI_BENCH_PROGRAM_PROGRAM_H_

#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace tutti {

// False if help was asked for, and has been printed. kInvalidArgument names the flag.
absl::StatusOr<bool> ParseFlags(CLI::App& app, int argc, const char* const* argv);

absl::Status WriteJsonFile(const std::string& path, const nlohmann::json& json);

}  // namespace tutti

#endif  // TUTTI_BENCH_PROGRAM_PROGRAM_H_
