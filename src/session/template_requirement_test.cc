#include "session/template_requirement.h"

#include <gtest/gtest.h>

namespace hutch {
namespace {

TEST(TemplateRequirementTest, AcceptsNamesExtrasAndVersions) {
  for (const auto* text : {"numpy", "scikit-learn", "ruamel.yaml", "pandas>=2", "pandas >= 2, < 4", "pillow==11.*",
                           "uvicorn[standard]", "a[b,c-d]~=1.0", "torch==2.3.0+cpu", "x!=1!2.0", "six"}) {
    EXPECT_TRUE(check_requirement(text)) << text;
  }
}

TEST(TemplateRequirementTest, RefusesWhateverAnInstallerMightTakeForSomethingElse) {
  using namespace std::string_view_literals;
  for (const auto text : {""sv,
                          " "sv,
                          "-r requirements.txt"sv,
                          "--index-url=https://example.invalid"sv,
                          "-e ."sv,
                          "."sv,
                          ".."sv,
                          "./x"sv,
                          "/etc/passwd"sv,
                          "../x"sv,
                          "x/y"sv,
                          "x.whl/"sv,
                          "https://example.invalid/x.whl"sv,
                          "git+ssh://x"sv,
                          "x @ https://example.invalid/x.whl"sv,
                          "x@file:///x"sv,
                          "x; python_version<'3'"sv,
                          "x;y"sv,
                          "x y"sv,
                          "x --pre"sv,
                          "x>=1 --pre"sv,
                          "x>=--pre"sv,
                          "x>=1;y"sv,
                          "x\nrequests"sv,
                          "x\0y"sv,
                          "x\t"sv,
                          "$(id)"sv,
                          "`id`"sv,
                          "x==$(id)"sv,
                          "x|y"sv,
                          "x&"sv,
                          "x>"sv,
                          "x=1"sv,
                          "x===1"sv,
                          "x,"sv,
                          "x>=1,"sv,
                          "x[a"sv,
                          "x[]"sv,
                          "x[a]b"sv,
                          "x-"sv,
                          "_x"sv,
                          "x>=1,,<2"sv,
                          "n\xc3\xbcmpy"sv,
                          "x>=v1"sv,
                          "\\x"sv,
                          "C:\\x"sv}) {
    EXPECT_FALSE(check_requirement(text)) << text;
  }
  EXPECT_FALSE(check_requirement(std::string(300, 'a')));
}

TEST(TemplateRequirementTest, MessagesCarryNoControlCharacters) {
  const auto result = check_requirement("a\x1b[31m\r\nb c");
  ASSERT_FALSE(result);
  for (const char c : result.error().message) EXPECT_GE(c, ' ');
}

TEST(TemplateRequirementTest, ModulesAreDottedNames) {
  for (const auto* text : {"json", "matplotlib.pyplot", "_ctypes", "a.b2.c_d"}) EXPECT_TRUE(check_module(text)) << text;
  for (const auto* text : {"", ".", "a.", ".a", "a..b", "a b", "a;b", "a-b", "2a", "a.2b", "a\nb", "os;import x"}) {
    EXPECT_FALSE(check_module(text)) << text;
  }
}

TEST(TemplateRequirementTest, TemplateNamesAreSafeFileNames) {
  for (const auto* text : {"bare", "default", "my-tools_2", "3d"}) EXPECT_TRUE(check_template_name(text)) << text;
  for (const auto* text : {"", ".", "..", "a/b", "A", "-x", "_x", "a.b", "a b", "a\n"}) {
    EXPECT_FALSE(check_template_name(text)) << text;
  }
  EXPECT_FALSE(check_template_name(std::string(41, 'a')));
}

TEST(TemplateRequirementTest, VariablesFitOnOneLine) {
  EXPECT_TRUE(check_variable("OMP_NUM_THREADS", "1"));
  EXPECT_FALSE(check_variable("", "1"));
  EXPECT_FALSE(check_variable("A=B", "1"));
  EXPECT_FALSE(check_variable("1A", "1"));
  EXPECT_FALSE(check_variable("A", "1\n2"));
}

TEST(TemplateRequirementTest, PythonVersionsCompareByNumber) {
  const auto version = parse_python_version("3.11");
  ASSERT_TRUE(version);
  EXPECT_TRUE(python_meets(*version, "").value());
  EXPECT_TRUE(python_meets(*version, ">=3.9").value());
  EXPECT_TRUE(python_meets(*version, ">=3.10, <3.12").value());
  EXPECT_FALSE(python_meets(*version, "<3.11").value());
  EXPECT_FALSE(python_meets(*version, "!=3.11").value());
  EXPECT_FALSE(python_meets(*version, ">=3.10,<3.11").value());
  for (const auto* text : {"3.11", ">=3", ">=3.10.1", "~=3.10", ">=3.10,", ">=3.10 x", ">=3.x"}) {
    EXPECT_FALSE(python_meets(*version, text)) << text;
  }
}

}  // namespace
}  // namespace hutch
