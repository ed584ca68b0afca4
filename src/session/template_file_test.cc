#include "session/template_file.h"

#include <gtest/gtest.h>

namespace hutch {
namespace {

std::string refusal(std::string_view text) {
  const auto file = parse_template_file("mine", text, "mine.toml");
  return file ? "accepted" : file.error().message;
}

TEST(TemplateFileTest, ReadsEveryKey) {
  const auto file = parse_template_file("mine", R"(
description = "Mine"
interpreter = "python3.12"
python = ">=3.11"
packages = ["numpy>=2", "rich"]
preload = ["numpy", "os.path"]
[environment]
B = "2"
A = "1"
)",
                                        "mine.toml");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->name, "mine");
  EXPECT_EQ(file->origin, "mine.toml");
  EXPECT_EQ(file->description, "Mine");
  EXPECT_EQ(file->interpreter, "python3.12");
  EXPECT_EQ(file->python, ">=3.11");
  EXPECT_EQ(file->packages, (std::vector<std::string>{"numpy>=2", "rich"}));
  EXPECT_EQ(file->preload, (std::vector<std::string>{"numpy", "os.path"}));
  EXPECT_EQ(file->environment, (Variables{{"A", "1"}, {"B", "2"}}));
}

TEST(TemplateFileTest, AnEmptyFileIsTheSystemPython) {
  const auto file = parse_template_file("mine", "", "mine.toml");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->interpreter, "/usr/bin/python3");
  EXPECT_TRUE(file->packages.empty());
}

TEST(TemplateFileTest, AnUnknownKeyNamesFileLineAndTheKnownKeys) {
  EXPECT_EQ(refusal("description = 'x'\npakages = []\n"),
            "mine.toml:2: unknown key 'pakages' (known keys: description, environment, interpreter, packages, preload, "
            "python)");
}

TEST(TemplateFileTest, BrokenTomlNamesTheLine) {
  EXPECT_TRUE(refusal("a = 1\nb = = 2\n").starts_with("mine.toml:2: "));
}

TEST(TemplateFileTest, ABadEntryNamesItsLine) {
  EXPECT_EQ(refusal("packages = [\n  'numpy',\n  '--pre',\n]\n"), "mine.toml:3: '--pre' is not a package requirement");
  EXPECT_EQ(refusal("preload = ['a;b']"), "mine.toml:1: 'a;b' is not a module name");
  EXPECT_EQ(refusal("[environment]\nX = 1\n"), "mine.toml:2: X must be a string");
  EXPECT_EQ(refusal("packages = 'numpy'"), "mine.toml:1: 'packages' must be a list of strings");
  EXPECT_EQ(refusal("\npython = 'new'"), "mine.toml:2: 'new' is not a Python version requirement");
  EXPECT_EQ(refusal("interpreter = '../python3'"),
            "mine.toml:1: 'interpreter' must be an absolute path or a plain name");
}

TEST(TemplateFileTest, AnOversizeFileIsRefused) { EXPECT_NE(refusal(std::string(300 * 1024, '#')), "accepted"); }

TEST(TemplateFileTest, AManifestComesBackAsItWasWritten) {
  const TemplateManifest written{.fingerprint = "0123",
                                 .built_at = "2025-01-31T12:00:00Z",
                                 .size = Bytes{12345},
                                 .cjk_font = "Noto \"Sans\" \\ CJK\t",
                                 .packages = {"numpy==2.0", "rich==13"},
                                 .environment = {{"MATPLOTLIBRC", "/opt/hutch/env/etc/matplotlibrc"}}};
  const auto read = parse_manifest(format_manifest(written), "manifest.toml");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->fingerprint, written.fingerprint);
  EXPECT_EQ(read->built_at, written.built_at);
  EXPECT_EQ(read->size, written.size);
  EXPECT_EQ(read->cjk_font, written.cjk_font);
  EXPECT_EQ(read->packages, written.packages);
  EXPECT_EQ(read->environment, written.environment);
}

}  // namespace
}  // namespace hutch
