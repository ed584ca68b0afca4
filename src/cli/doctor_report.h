// How doctor's findings are shown: a table for a person, one JSON object for a program. On standard output.
#pragma once

#include "cli/doctor_command.h"

namespace hutch {

class DoctorReport {
 public:
  explicit DoctorReport(bool verbose);
  void machine(const Machine& machine) const;
  void checks(const std::vector<Check>& checks) const;  // grouped by level
  void attacks(const AttackReport& report) const;
  void verdict(const Diagnosis& diagnosis) const;

 private:
  void row(const Check& check) const;
  [[nodiscard]] std::string paint(const char* code, const std::string& text) const;
  bool verbose_;
  bool colour_;
};

std::string diagnosis_to_json(const Diagnosis& diagnosis);

}  // namespace hutch
