// Names of Python packages in calls: which are there, and which may be asked for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hutch {

// What a template has, with versions; nothing when that cannot be told.
std::vector<std::string> packages_of(const std::string& template_name);
// As the package index compares them: without version and extras, in lower case, `_` and `.` as `-`.
std::string normal_name(std::string_view package);
bool is_standard_library(std::string_view module);
// Neither a module of the standard library nor installed.
std::vector<std::string> missing_packages(const std::vector<std::string>& wanted,
                                          const std::vector<std::string>& installed);
std::vector<std::string> not_allowed(const std::vector<std::string>& wanted, const std::vector<std::string>& allowed);

}  // namespace hutch
