#include "api/tools/packages.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "session/template_store.h"

namespace hutch {
namespace {

// sys.stdlib_module_names of Python 3.11, without the private ones; sorted.
constexpr std::string_view kStandardLibrary[] = {
    "abc",
    "aifc",
    "antigravity",
    "argparse",
    "array",
    "ast",
    "asynchat",
    "asyncio",
    "asyncore",
    "atexit",
    "audioop",
    "base64",
    "bdb",
    "binascii",
    "bisect",
    "builtins",
    "bz2",
    "cProfile",
    "calendar",
    "cgi",
    "cgitb",
    "chunk",
    "cmath",
    "cmd",
    "code",
    "codecs",
    "codeop",
    "collections",
    "colorsys",
    "compileall",
    "concurrent",
    "configparser",
    "contextlib",
    "contextvars",
    "copy",
    "copyreg",
    "crypt",
    "csv",
    "ctypes",
    "curses",
    "dataclasses",
    "datetime",
    "dbm",
    "decimal",
    "difflib",
    "dis",
    "distutils",
    "doctest",
    "email",
    "encodings",
    "ensurepip",
    "enum",
    "errno",
    "faulthandler",
    "fcntl",
    "filecmp",
    "fileinput",
    "fnmatch",
    "fractions",
    "ftplib",
    "functools",
    "gc",
    "genericpath",
    "getopt",
    "getpass",
    "gettext",
    "glob",
    "graphlib",
    "grp",
    "gzip",
    "hashlib",
    "heapq",
    "hmac",
    "html",
    "http",
    "idlelib",
    "imaplib",
    "imghdr",
    "imp",
    "importlib",
    "inspect",
    "io",
    "ipaddress",
    "itertools",
    "json",
    "keyword",
    "lib2to3",
    "linecache",
    "locale",
    "logging",
    "lzma",
    "mailbox",
    "mailcap",
    "marshal",
    "math",
    "mimetypes",
    "mmap",
    "modulefinder",
    "msilib",
    "msvcrt",
    "multiprocessing",
    "netrc",
    "nis",
    "nntplib",
    "nt",
    "ntpath",
    "nturl2path",
    "numbers",
    "opcode",
    "operator",
    "optparse",
    "os",
    "ossaudiodev",
    "pathlib",
    "pdb",
    "pickle",
    "pickletools",
    "pipes",
    "pkgutil",
    "platform",
    "plistlib",
    "poplib",
    "posix",
    "posixpath",
    "pprint",
    "profile",
    "pstats",
    "pty",
    "pwd",
    "py_compile",
    "pyclbr",
    "pydoc",
    "pydoc_data",
    "pyexpat",
    "queue",
    "quopri",
    "random",
    "re",
    "readline",
    "reprlib",
    "resource",
    "rlcompleter",
    "runpy",
    "sched",
    "secrets",
    "select",
    "selectors",
    "shelve",
    "shlex",
    "shutil",
    "signal",
    "site",
    "smtpd",
    "smtplib",
    "sndhdr",
    "socket",
    "socketserver",
    "spwd",
    "sqlite3",
    "sre_compile",
    "sre_constants",
    "sre_parse",
    "ssl",
    "stat",
    "statistics",
    "string",
    "stringprep",
    "struct",
    "subprocess",
    "sunau",
    "symtable",
    "sys",
    "sysconfig",
    "syslog",
    "tabnanny",
    "tarfile",
    "telnetlib",
    "tempfile",
    "termios",
    "textwrap",
    "this",
    "threading",
    "time",
    "timeit",
    "tkinter",
    "token",
    "tokenize",
    "tomllib",
    "trace",
    "traceback",
    "tracemalloc",
    "tty",
    "turtle",
    "turtledemo",
    "types",
    "typing",
    "unicodedata",
    "unittest",
    "urllib",
    "uu",
    "uuid",
    "venv",
    "warnings",
    "wave",
    "weakref",
    "webbrowser",
    "winreg",
    "winsound",
    "wsgiref",
    "xdrlib",
    "xml",
    "xmlrpc",
    "zipapp",
    "zipfile",
    "zipimport",
    "zlib",
    "zoneinfo",
};

}  // namespace

std::vector<std::string> packages_of(const std::string& template_name) {
  const auto paths = TemplatePaths::from_environment();
  const auto store = paths ? TemplateStore::open(*paths) : Result<TemplateStore>(paths.error());
  const auto info = store ? store->show(template_name) : Result<TemplateInfo>(store.error());
  return info ? info->installed : std::vector<std::string>{};
}

std::string normal_name(std::string_view package) {
  package = package.substr(0, package.find_first_of(" \t[=<>!~;@"));
  std::string name;
  for (const char letter : package) {
    const bool separator = letter == '-' || letter == '_' || letter == '.';
    if (separator && name.ends_with('-')) continue;
    name += separator ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return name;
}

bool is_standard_library(std::string_view module) {
  return std::ranges::binary_search(kStandardLibrary, module.substr(0, module.find('.')));
}

std::vector<std::string> missing_packages(const std::vector<std::string>& wanted,
                                          const std::vector<std::string>& installed) {
  std::vector<std::string> missing;
  for (const auto& package : wanted) {
    const std::string name = normal_name(package);
    const auto is_same = [&](const std::string& have) { return normal_name(have) == name; };
    if (!is_standard_library(package) && std::ranges::none_of(installed, is_same)) missing.push_back(package);
  }
  return missing;
}

std::vector<std::string> not_allowed(const std::vector<std::string>& wanted, const std::vector<std::string>& allowed) {
  std::vector<std::string> refused;
  for (const auto& package : wanted) {
    const auto is_same = [&](const std::string& one) { return normal_name(one) == normal_name(package); };
    if (!is_standard_library(package) && std::ranges::none_of(allowed, is_same)) refused.push_back(package);
  }
  return refused;
}

}  // namespace hutch
