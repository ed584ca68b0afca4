#include "api/tools/code_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace hutch {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Risk risk(std::string_view source) { return scan_code(source).risk; }

TEST(CodeScan, OrdinaryCodeHasNoWarnings) {
  const auto scan = scan_code(
      "import os, re\nimport pandas as pd\nfrom urllib.parse import quote\n"
      "pattern = re.compile('a')\ndf = pd.read_csv('/workspace/a.csv')\ndf.eval('a + b')\n"
      "with open('out.txt', 'w') as f:\n    f.write(os.path.join('/tmp', 'x'))\nmodel.compile(loss='x')\n");
  EXPECT_EQ(scan.risk, Risk::low);
  EXPECT_THAT(scan.warnings, IsEmpty());
}

TEST(CodeScan, FindsImportsInAllTheirForms) {
  EXPECT_THAT(imported_modules("import a.b as c, d\nfrom e.f import g\nif x: import h; import i\n"),
              ElementsAre("a", "d", "e", "h", "i"));
  EXPECT_THAT(imported_modules("from a import (b,\n  # c\n  d as e,)\nfrom \\\n  f \\\n  import g\nimport h\n"),
              ElementsAre("a", "f", "h"));
  EXPECT_THAT(imported_modules("__import__('a.b')\nimport importlib\nimportlib.import_module(\"c\")\n"),
              ElementsAre("a", "importlib", "c"));
  EXPECT_THAT(imported_modules("from importlib import import_module as im\nim(r'd')\nim(name)\nim(f'{x}')\n"),
              ElementsAre("importlib", "d"));
  EXPECT_THAT(imported_modules("import a\nimport a.b\nfrom a import *\n"), ElementsAre("a"));
}

TEST(CodeScan, RelativeImportsAndOtherUsesOfFromAreNoImports) {
  EXPECT_THAT(imported_modules("from . import a\nfrom .b import c\nfrom ...d.e import f\n"), IsEmpty());
  EXPECT_THAT(imported_modules("def f():\n    yield from numbers\nraise A from error\n"), IsEmpty());
  EXPECT_EQ(risk("def f():\n    yield from eval('x')\n"), Risk::medium);
}

TEST(CodeScan, CommentsAndStringsAreNotCode) {
  EXPECT_THAT(imported_modules("# import a\n'import b'\n\"\"\"\nimport c\n\"\"\"\nimport d\n"), ElementsAre("d"));
  EXPECT_THAT(imported_modules("x = 'it\\'s; import a'\ny = r'\\''\nimport b\n"), ElementsAre("b"));
  EXPECT_THAT(imported_modules("x = rb'''\nimport a\n''' + f\"\"\"import b\"\"\"\nimport c"), ElementsAre("c"));
  EXPECT_THAT(imported_modules("s = 'a\\\nimport b'\nimport c\n"), ElementsAre("c"));
  EXPECT_EQ(risk("print('eval(x)')  # os.system('ls')\n"), Risk::low);
}

TEST(CodeScan, EveryEndOfALineThatPythonKnowsEndsAComment) {
  EXPECT_THAT(imported_modules("# x\rimport a\r\nimport b\n"), ElementsAre("a", "b"));
  EXPECT_THAT(imported_modules("\xEF\xBB\xBFimport a\n"), ElementsAre("a"));
}

TEST(CodeScan, AStringThatIsNotClosedHidesOnlyItsLine) {
  EXPECT_THAT(imported_modules("x = 'abc\nimport a\n"), ElementsAre("a"));
  EXPECT_THAT(imported_modules("x = '''abc\nimport a\n"), IsEmpty());
}

TEST(CodeScan, SaysWhereAndWhy) {
  EXPECT_THAT(scan_code("import os\n\nos.system('ls')\n").warnings,
              ElementsAre("Line 3: `os.system` starts other programs, which share the sandbox and its limits."));
  EXPECT_THAT(scan_code("import requests").warnings,
              ElementsAre("Line 1: `requests` needs a network, and there is no network in the sandbox."));
}

TEST(CodeScan, GivesEachThingItsLevel) {
  for (const std::string_view source :
       {"import subprocess", "import socket", "from urllib.request import urlopen", "import urllib.request",
        "from urllib import request", "import os\nos.fork()", "os.kill(1, 9)", "eval(x)", "exec (x)",
        "compile(a, b, c)", "import pickle\npickle.loads(x)", "subprocess.run(['ls'])", "__import__(name)",
        "x.__class__.__subclasses__()"}) {
    EXPECT_EQ(risk(source), Risk::medium) << source;
  }
  for (const std::string_view source : {"import ctypes", "from ctypes import CDLL", "import cffi", "os.chroot('x')"}) {
    EXPECT_EQ(risk(source), Risk::high) << source;
  }
  for (const std::string_view source :
       {"import pickle", "import multiprocessing", "import urllib.parse", "import http"}) {
    EXPECT_EQ(risk(source), Risk::low) << source;
  }
}

TEST(CodeScan, SeesThroughOtherNames) {
  EXPECT_EQ(risk("import os as o\no.system('ls')"), Risk::medium);
  EXPECT_EQ(risk("from os import system as s\ns('ls')"), Risk::medium);
  EXPECT_EQ(risk("import builtins\nbuiltins.eval('1')"), Risk::medium);
  EXPECT_EQ(risk("os.\\\nsystem\\\n('ls')"), Risk::medium);
  EXPECT_EQ(risk("import pandas as pd\npd.read_pickle('a')"), Risk::medium);
}

TEST(CodeScan, ANameThatIsDefinedOrBelongsToSomethingIsNotTheBuiltIn) {
  EXPECT_EQ(risk("def eval(x): pass\n"), Risk::low);
  EXPECT_EQ(risk("frame().eval('a')\nsession.exec(x)\n"), Risk::low);
  EXPECT_EQ(risk("f(eval=1)\n"), Risk::low);
}

TEST(CodeScan, WarnsOfFilesElsewhereOnlyIfTheLiteralSaysSo) {
  const auto scan = scan_code("open('/etc/passwd')\nfrom pathlib import Path\nPath('/data/x')\n");
  EXPECT_EQ(scan.risk, Risk::medium);
  EXPECT_THAT(scan.warnings, ElementsAre(HasSubstr("`/etc/passwd` is outside"), HasSubstr("`/data/x` is outside")));
  EXPECT_EQ(risk("open('/tmp/../etc/passwd')"), Risk::medium);
  EXPECT_EQ(risk("open('/workspaces/x')"), Risk::medium);
  for (const std::string_view source : {"open('/tmp/x')", "open('//workspace/./x')", "open('etc/passwd')",
                                        "open('/dev/null')", "open(path)", "open(f'{a}/etc')", "self.open('/etc/x')"}) {
    EXPECT_EQ(risk(source), Risk::low) << source;
  }
}

TEST(CodeScan, MemoryOfProcessesIsCritical) {
  EXPECT_EQ(risk("open('/proc/self/mem', 'wb')"), Risk::critical);
  EXPECT_EQ(risk("p = f'/proc/{pid}/mem'"), Risk::critical);
  EXPECT_EQ(risk("p = '/proc/meminfo'"), Risk::low);
}

TEST(CodeScan, PtraceIsCriticalWhereNativeCodeCanBeCalled) {
  EXPECT_EQ(risk("import ctypes\nctypes.CDLL(None).ptrace(16, 1, 0, 0)"), Risk::critical);
  EXPECT_EQ(risk("libc.ptrace(0)\nfrom ctypes import CDLL"), Risk::critical);
  EXPECT_EQ(risk("import ctypes\ngetattr(libc, 'process_vm_writev')"), Risk::critical);
  EXPECT_EQ(risk("graph.ptrace(0)"), Risk::low);
}

TEST(CodeScan, ForkingInAnEndlessLoopIsCritical) {
  EXPECT_EQ(risk("import os\nwhile True: os.fork()"), Risk::critical);
  EXPECT_EQ(risk("from os import fork\nwhile (1):\n    if x:\n        fork()\n"), Risk::critical);
  EXPECT_EQ(risk("import os\nwhile True:\n    break\nos.fork()\n"), Risk::medium);
  EXPECT_EQ(risk("import os\nwhile x:\n    os.fork()\n"), Risk::medium);
  EXPECT_EQ(risk("import os\nos.system(':(){ :|:& };:')"), Risk::critical);
}

TEST(CodeScan, SaysEachThingOnceAndInOrder) {
  const auto scan = scan_code("libc.ptrace(1)\nimport socket\nimport socket\nimport ctypes\neval(a)\neval(b)\n");
  EXPECT_THAT(scan.warnings, ElementsAre(HasSubstr("Line 1: `ptrace`"), HasSubstr("Line 2: `socket`"),
                                         HasSubstr("Line 4: `ctypes`"), HasSubstr("Line 5: `eval`")));
}

TEST(CodeScan, WhatItQuotesIsShortAndPrintable) {
  const auto scan = scan_code("open('/etc/\x1b[2J" + std::string(3000, 'x') + "')");
  ASSERT_THAT(scan.warnings, SizeIs(1));
  EXPECT_LT(scan.warnings[0].size(), 250U);
  EXPECT_THAT(scan.warnings[0], HasSubstr("/etc/\\x1b[2J"));
}

TEST(CodeScan, HugeAndTwistedSourcesTakeTimeInProportion) {
  std::string dots = "import ";
  for (int part = 0; part < 200'000; ++part) dots += "a.";
  dots += "a as b\n";
  while (dots.size() < kMostScanned.count) dots += "b;";
  EXPECT_EQ(scan_code(dots.substr(0, kMostScanned.count)).risk, Risk::low);
  EXPECT_EQ(scan_code(std::string(kMostScanned.count, '(')).risk, Risk::low);
  EXPECT_EQ(scan_code(std::string(kMostScanned.count, '"')).risk, Risk::low);
  std::string paths;
  while (paths.size() < kMostScanned.count) paths += "open('/" + std::to_string(paths.size()) + "')\n";
  const auto scan = scan_code(paths);
  EXPECT_THAT(scan.warnings, SizeIs(9));
  EXPECT_THAT(scan.warnings, Contains("Only the first MiB of the source was looked at."));
}

TEST(CodeScan, LevelsHaveNames) {
  EXPECT_EQ(name(Risk::low), "low");
  EXPECT_EQ(name(Risk::critical), "critical");
}

}  // namespace
}  // namespace hutch
