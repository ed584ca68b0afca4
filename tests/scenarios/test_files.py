"""Files that go in and come out: by descriptor, beneath the workspace, and never through a link."""
from __future__ import annotations

import hashlib
import os
import unittest

import support
from support import Scenario

setUpModule, tearDownModule = support.begin, support.finish

TREE = "import os\nfor d, _, fs in sorted(os.walk('.')):\n  for f in sorted(fs): print(os.path.join(d, f)[2:])"


def write(path: str, data: bytes | str = b"") -> str:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data.encode() if isinstance(data, str) else data)
    return path


def tree(folder: str) -> dict[str, bytes | str]:
    found = {}
    for directory, folders, files in os.walk(folder):
        for name in files + folders:
            path = os.path.join(directory, name)
            if os.path.islink(path):
                found[os.path.relpath(path, folder)] = "link"
            elif os.path.isfile(path):
                with open(path, "rb") as file:
                    found[os.path.relpath(path, folder)] = file.read()
    return found


class In(Scenario):
    def test_a_file_a_directory_and_a_new_name(self):
        with self.home.folder() as folder:
            data = write(folder + "/data.csv", "a,b\n1,2\n")
            write(folder + "/more/x.txt", "x")
            write(folder + "/more/deep/er/y.txt", "y")
            done = self.home.run(TREE, "--in", data, "--in", folder + "/more", "--in", data + ":sub/renamed.csv",
                                 "--in", folder + "/more:other")
        self.assertEqual(done.errors, "")
        self.assertEqual(done.text.split(), ["data.csv", "more/x.txt", "more/deep/er/y.txt", "other/x.txt",
                                             "other/deep/er/y.txt", "sub/renamed.csv"])

    def test_content_and_permissions_arrive(self):
        with self.home.folder() as folder:
            data = os.urandom(3 << 20)
            path = write(folder + "/big.bin", data)
            tool = write(folder + "/tool.sh", "#!/bin/sh\necho ran\n")
            os.chmod(tool, 0o755)
            empty = write(folder + "/empty")
            done = self.home.run("import hashlib, os\nprint(hashlib.sha256(open('big.bin', 'rb').read()).hexdigest())\n"
                                 "print(os.stat('tool.sh').st_mode & 0o111 != 0, os.stat('empty').st_size)",
                                 "--in", path, "--in", tool, "--in", empty)
        self.assertEqual(done.text.split(), [hashlib.sha256(data).hexdigest(), "True", "0"])

    def test_hostile_names_are_refused(self):
        with self.home.folder() as folder:
            path = write(folder + "/f", "x")
            for name in ("../up", "/etc/passwd", "a/../../b", "..", ".", "a//b", "x" * 300, "a/" * 40 + "b", "new\nline",
                         "bell\a"):
                with self.subTest(name):
                    self.check_refused(self.home.run("print(1)", "--in", "%s:%s" % (path, name)), "hutch:")

    def test_odd_names_that_are_allowed(self):
        with self.home.folder() as folder:
            names = ["ü ñ 漢字.txt", "-rf", "a b", "*", "'q\"", "trailing.", ".hidden"]
            options = []
            for name in names:
                options += ["--in", write(folder + "/" + name, name)]
            done = self.home.run("import os; print(sorted(os.listdir('.')) == sorted(%r))" % names, *options)
        self.assertEqual((done.text, done.errors), ("True\n", ""))

    def test_links_in_a_directory_are_not_followed(self):
        with self.home.folder() as folder:
            write(folder + "/in/real", "x")
            os.symlink("/etc/passwd", folder + "/in/link")
            os.symlink("/etc", folder + "/in/folder")
            os.mkfifo(folder + "/in/pipe")
            done = self.home.run(TREE, "--in", folder + "/in")
        self.assertEqual(done.text, "in/real\n")

    def test_what_cannot_be_put_in(self):
        with self.home.folder() as folder:
            os.mkfifo(folder + "/pipe")
            self.check_refused(self.home.run("1", "--in", folder + "/pipe"), "not a regular file")
            self.check_refused(self.home.run("1", "--in", folder + "/nosuch"), "nosuch", "hint:")
            self.check_refused(self.home.run("1", "--in", write(folder + "/big", b"x" * (2 << 20)), "--scratch", "1M"),
                               "larger than the scratch space", "--scratch")

    def test_two_files_of_one_name(self):
        with self.home.folder() as folder:
            one, two = write(folder + "/1/n", "one"), write(folder + "/2/n", "two")
            done = self.home.run("print(open('n').read())", "--in", one, "--in", two)
        self.assertIn((done.code, done.text), ((0, "two\n"), (support.OWN_FAILURE, "")))


class Out(Scenario):
    def out(self, code: str, *options: str) -> tuple[dict, dict, str]:
        with self.home.folder() as folder:
            record = self.home.record(code, "--out", folder + "/out", *options)
            return tree(folder + "/out"), record, folder

    def test_created_files_come_out_with_their_description(self):
        found, record, _ = self.out("import os\nos.makedirs('a/b')\nopen('a/b/x.json', 'w').write('{}')\n"
                                    "open('ü 漢.png', 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n')\nopen('empty', 'w')\n"
                                    "open('t.csv', 'w').write('1,2')")
        self.assertEqual(found, {"a/b/x.json": b"{}", "ü 漢.png": b"\x89PNG\r\n\x1a\n", "empty": b"", "t.csv": b"1,2"})
        files = {file["path"]: file for file in record["files"]}
        self.assertEqual(set(files), set(found))
        for path, file in files.items():
            self.assertEqual((file["size"], file["sha256"], file["change"]),
                             (len(found[path]), hashlib.sha256(found[path]).hexdigest(), "created"))
            self.assertRegex(file["modified_at"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\d\dZ$")
        self.assertEqual([files[p]["mime_type"] for p in ("a/b/x.json", "ü 漢.png", "t.csv")],
                         ["application/json", "image/png", "text/csv"])

    def test_only_what_changed(self):
        with self.home.folder() as folder:
            inputs = []
            for name in ("same", "changed", "gone", "touched"):
                inputs += ["--in", write(folder + "/" + name, name)]
            found, record, _ = self.out("import os\nopen('changed', 'w').write('new')\nos.remove('gone')\n"
                                        "open('touched', 'a').close()\nopen('fresh', 'w').write('f')", *inputs)
        self.assertEqual(found, {"changed": b"new", "fresh": b"f"})
        self.assertEqual({file["path"]: file["change"] for file in record["files"]},
                         {"changed": "modified", "fresh": "created", "gone": "deleted"})

    def test_the_program_itself_is_not_an_output(self):
        with self.home.folder() as folder:
            path = write(folder + "/p.py", "open('o', 'w').write('o')")
            done = self.home.call("run", "--json", "--out", folder + "/out", path)
            self.assertEqual(tree(folder + "/out"), {"o": b"o"})
            self.assertEqual([file["path"] for file in done.record["files"]], ["o"])

    def test_links_pipes_and_devices_stay_inside(self):
        found, record, _ = self.out("import os\nos.symlink('/etc/passwd', 'link')\nos.symlink('/', 'root')\n"
                                    "os.mkfifo('pipe')\nimport socket; socket.socket(socket.AF_UNIX).bind('sock')\n"
                                    "os.mkdir('d'); os.symlink('..', 'd/up'); open('d/real', 'w').write('r')")
        self.assertEqual(found, {"d/real": b"r"})
        self.assertEqual([file["path"] for file in record["files"]], ["d/real"])

    def test_a_link_in_the_target_is_not_written_through(self):
        with self.home.folder() as folder:
            os.makedirs(folder + "/out")
            write(folder + "/victim", "precious")
            os.makedirs(folder + "/elsewhere")
            os.symlink(folder + "/victim", folder + "/out/f")
            os.symlink(folder + "/elsewhere", folder + "/out/d")
            done = self.home.run("import os\nopen('f', 'w').write('evil')\nos.mkdir('d'); open('d/x', 'w').write('evil')",
                                 "--out", folder + "/out")
            self.assertEqual(tree(folder)["victim"], b"precious")
            self.assertEqual(os.listdir(folder + "/elsewhere"), [])
            self.assertEqual(done.code, support.OWN_FAILURE)
            self.assertEqual(tree(folder + "/out"), {"f": b"evil", "d": "link"})

    def test_hostile_names_do_not_leave_the_target(self):
        code = "import os\nfor n in (b'a\\nb', b'\\xff\\xfe', b'\\x1b[31m', b'-x', b'..x', b'x'*255):\n" \
               "  open(n, 'w').write('h')\nos.makedirs('e/' * 31); open('e/' * 31 + 'f', 'w').write('deep')"
        with self.home.folder() as folder:
            done = self.home.run(code, "--out", folder + "/out")
            self.assertNotIn(b"\x1b[31m", done.err)
            self.assertEqual(sorted(os.listdir(folder)), ["out"])
            self.assertIn("-x", os.listdir(folder + "/out"))
            self.assertEqual([name for name in os.listdir(folder + "/out") if name.startswith(".hutch-")], [])
        self.check_alive()

    def test_a_record_of_odd_names_is_valid_json(self):
        record = self.home.record("open(b'\\xff\\xfe\\n', 'w').write('h')")
        self.assertEqual(len(record["files"]), 1)

    def test_unreadable_and_set_uid_files(self):
        found, record, _ = self.out("import os\nopen('secret', 'w').write('s'); os.chmod('secret', 0)\n"
                                    "open('run', 'w').write('r'); os.chmod('run', 0o777)\n"
                                    "try: os.chmod('run', 0o4777)\nexcept OSError: pass")
        self.assertEqual(found["run"], b"r")
        self.assertEqual(found["secret"], b"s")

    def test_mode_of_what_comes_out_is_plain(self):
        with self.home.folder() as folder:
            self.home.run("import os; open('f', 'w'); os.chmod('f', 0o777)", "--out", folder + "/out")
            self.assertEqual(os.stat(folder + "/out/f").st_mode & 0o7777, 0o644)

    def test_thousands_of_files_are_cut_and_said_to_be(self):
        found, record, _ = self.out("for i in range(1500): open('f%04d' % i, 'w')")
        self.assertTrue(record["truncated"]["files"])
        self.assertEqual(len(record["files"]), len(found))

    def test_files_of_a_run_that_was_killed_come_out(self):
        found, record, _ = self.out("f = open('part', 'w'); f.write('kept'); f.flush()\nwhile True: pass",
                                    "--timeout", "0.5")
        self.assertEqual((found, record["status"]), ({"part": b"kept"}, "timeout"))

    def test_a_target_that_cannot_be_written(self):
        with self.home.folder() as folder:
            self.check_refused(self.home.run("1", "--out", write(folder + "/file") + "/sub"), "hutch:")

    def test_sparse_and_huge_files(self):
        found, record, _ = self.out("f = open('sparse', 'wb'); f.truncate(60 << 20); f.write(b'x')")
        self.assertEqual((len(found["sparse"]), record["files"][0]["size"]), (60 << 20, 60 << 20))


if __name__ == "__main__":
    support.main()
