// Files that are named by a user: a pipe would be waited for, and a device read without an end.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace assay {

// Why nothing is to be read from `path`, in words; "" of an ordinary file.
inline std::string_view why_no_file(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) return "there is no such file";
  if (std::filesystem::is_directory(status)) return "it is a folder";
  return std::filesystem::is_regular_file(status) ? "" : "it is no ordinary file";
}

}  // namespace assay
