"""The Debian package, the systemd unit and the Containerfile. The package is built, read and unpacked, not installed:
that would change the machine. The Containerfile is only read: building it needs a registry."""
from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import support
from support import HUTCH, ROOT, missing

PACKAGING = os.path.join(ROOT, "packaging")
UNIT = os.path.join(PACKAGING, "systemd/hutch.service")
CONTENTS = {
    "./etc/hutch/config.toml": "-rw-r--r--",
    "./lib/systemd/system/hutch.service": "-rw-r--r--",
    "./usr/bin/hutch": "-rwxr-xr-x",
    "./usr/share/doc/hutch/copyright": "-rw-r--r--",
}


def run(*command: str, **more) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, **more)
    if done.returncode != 0:
        raise AssertionError("%s: %d\n%s%s" % (" ".join(command), done.returncode, done.stdout, done.stderr))
    return done.stdout


def unit_settings() -> dict[str, list[str]]:
    settings: dict[str, list[str]] = {}
    with open(UNIT) as file:
        for line in file:
            if "=" in line and not line.startswith("#"):
                name, _, value = line.strip().partition("=")
                settings.setdefault(name, []).append(value)
    return settings


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for tool in ("dpkg", "dpkg-deb"):
            if not shutil.which(tool):
                missing(tool + " is not installed")
        cls.directory = tempfile.mkdtemp(prefix="hutch-packaging-")
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.package = run(os.path.join(PACKAGING, "debian/build"), HUTCH, cls.directory).strip()
        cls.root = os.path.join(cls.directory, "root")
        run("dpkg-deb", "-x", cls.package, cls.root)

    def test_it_is_named_after_the_program_its_version_and_the_machine(self):
        version = run(HUTCH, "--version").split()[1]
        architecture = run("dpkg", "--print-architecture").strip()
        self.assertEqual(os.path.basename(self.package), "hutch_%s_%s.deb" % (version, architecture))
        fields = run("dpkg-deb", "--field", self.package, "Package", "Version", "Architecture").split()
        self.assertEqual(fields[1::2], ["hutch", version, architecture])

    def test_it_names_what_it_needs(self):
        depends = run("dpkg-deb", "--field", self.package, "Depends")
        for name in ("libc6", "passwd", "python3", "uidmap"):
            self.assertRegex(depends, r"\b%s\b" % name)

    def test_everything_that_is_not_linked_in_comes_with_libc(self):
        if not shutil.which("ldd"):
            missing("ldd is not installed")
        with open(HUTCH, "rb") as file:
            if b"__asan_init" in file.read():
                self.skipTest("a build with sanitizers is not one to package")
        needed = {line.split()[0] for line in run("ldd", HUTCH).splitlines()}
        strangers = [name for name in needed if not re.match(r"(.*/)?(linux-vdso|lib[cm]|ld-linux.*)\.so", name)]
        self.assertEqual(strangers, [])

    def test_it_contains_exactly_these_files_and_they_are_roots(self):
        found = {}
        for line in run("dpkg-deb", "--contents", self.package).splitlines():
            mode, owner, _, _, _, path = line.split(None, 5)
            self.assertEqual(owner, "root/root", path)
            if not path.endswith("/"):
                found[path] = mode
            else:
                self.assertEqual(mode, "drwxr-xr-x", path)
        self.assertEqual(found, CONTENTS)

    def test_its_control_files_are_complete_and_its_checksums_right(self):
        control = os.path.join(self.directory, "control")
        run("dpkg-deb", "-e", self.package, control)
        self.assertEqual(sorted(os.listdir(control)), ["conffiles", "control", "md5sums", "postinst", "postrm", "prerm"])
        with open(os.path.join(control, "conffiles")) as file:
            self.assertEqual(file.read(), "/etc/hutch/config.toml\n")
        with open(os.path.join(control, "md5sums")) as file:
            sums = dict(reversed(line.split(None, 1)) for line in file.read().splitlines())
        self.assertEqual({"./" + path for path in sums}, set(CONTENTS))
        for path, expected in sums.items():
            with open(os.path.join(self.root, path), "rb") as file:
                self.assertEqual(hashlib.md5(file.read()).hexdigest(), expected, path)
        for script in ("postinst", "prerm", "postrm"):
            run("sh", "-n", os.path.join(control, script))
            self.assertTrue(os.access(os.path.join(control, script), os.X_OK), script)

    def test_the_program_runs_from_where_it_is_unpacked(self):
        self.assertEqual(run(os.path.join(self.root, "usr/bin/hutch"), "--version"), run(HUTCH, "--version"))

    def config(self, directory: str) -> dict:
        environment = {"PATH": os.environ["PATH"], "HOME": self.directory, "XDG_CONFIG_HOME": directory}
        return json.loads(run(os.path.join(self.root, "usr/bin/hutch"), "config", "--json", env=environment))

    def test_its_configuration_is_valid_and_changes_nothing(self):
        self.assertEqual(self.config(os.path.join(self.root, "etc")), self.config(self.directory))

    def test_what_its_configuration_leaves_out_is_valid_too(self):
        """Every commented line, taken at its word, is a key that exists and the value that holds anyway."""
        place = os.path.join(self.directory, "uncommented")
        os.makedirs(os.path.join(place, "hutch"))
        with open(os.path.join(self.root, "etc/hutch/config.toml")) as file:
            text = re.sub(r"(?m)^# (?=\[|\w+ = )", "", file.read())
        with open(os.path.join(place, "hutch/config.toml"), "w") as file:
            file.write(text.replace('template = "default"', ""))
        without_origin = lambda config: re.sub(r'"origin": ?"[^"]*"', "", json.dumps(config))  # noqa: E731
        self.assertEqual(without_origin(self.config(place)).replace(place, ""),
                         without_origin(self.config(self.directory)))
        self.assertIn("max_timeout", text)

    def test_the_same_program_gives_the_same_package(self):
        with tempfile.TemporaryDirectory() as other:
            again = run(os.path.join(PACKAGING, "debian/build"), HUTCH, other).strip()
            with open(self.package, "rb") as first, open(again, "rb") as second:
                self.assertEqual(first.read(), second.read())

    def test_a_program_that_is_not_there_is_said_so(self):
        done = subprocess.run([os.path.join(PACKAGING, "debian/build"), "/nowhere/hutch", self.directory],
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("/nowhere/hutch is not there", done.stderr)

    def test_systemd_finds_no_fault_with_the_unit(self):
        if not shutil.which("systemd-analyze"):
            missing("systemd-analyze is not installed")
        program = os.path.join(self.root, "usr/bin/hutch")
        unit = os.path.join(self.directory, "hutch.service")  # it checks that the program is there
        with open(os.path.join(self.root, "lib/systemd/system/hutch.service")) as source, open(unit, "w") as copy:
            copy.write(source.read().replace("/usr/bin/hutch", program))
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
        about_it = [line for line in (done.stdout + done.stderr).splitlines() if "hutch" in line]
        self.assertEqual((done.returncode, about_it), (0, []), done.stderr)


class Unit(unittest.TestCase):
    def test_it_leaves_out_what_would_stop_sandboxes_from_starting(self):
        """Each of these takes away newuidmap, a new /proc, namespaces or control groups; the unit says which."""
        breaks = {"NoNewPrivileges", "SystemCallFilter", "SystemCallArchitectures", "RestrictAddressFamilies",
                  "RestrictRealtime", "RestrictSUIDSGID", "LockPersonality", "MemoryDenyWriteExecute", "PrivateDevices",
                  "ProtectKernelModules", "ProtectClock", "ProtectKernelTunables", "ProtectKernelLogs", "ProtectProc",
                  "ProcSubset", "ProtectControlGroups", "RestrictNamespaces", "PrivateUsers", "ProtectHostname"}
        self.assertEqual(breaks & set(unit_settings()), set())

    def test_it_keeps_the_walls_that_it_can(self):
        settings = unit_settings()
        for name, value in {"User": "hutch", "Delegate": "yes", "ProtectSystem": "strict", "ProtectHome": "yes",
                            "PrivateTmp": "yes", "OOMPolicy": "continue", "Restart": "on-failure",
                            "StateDirectoryMode": "0700", "RuntimeDirectoryMode": "0700", "KillMode": "mixed",
                            "AmbientCapabilities": ""}.items():
            self.assertEqual(settings.get(name), [value], name)


class Container(unittest.TestCase):
    """Read, not built."""

    def instructions(self) -> list[tuple[str, str]]:
        with open(os.path.join(PACKAGING, "container/Containerfile")) as file:
            lines = [line for line in file.read().splitlines() if line and not line.startswith("#")]
        text = "\n".join(lines).replace("\\\n", " ")
        return [tuple(line.split(None, 1)) for line in text.splitlines()]

    def test_it_begins_with_debian_12_and_uses_only_known_instructions(self):
        instructions = self.instructions()
        self.assertEqual(instructions[0], ("FROM", "docker.io/library/debian:12-slim"))
        known = {"FROM", "COPY", "RUN", "ENV", "VOLUME", "EXPOSE", "STOPSIGNAL", "ENTRYPOINT", "CMD"}
        self.assertEqual({name for name, _ in instructions} - known, set())
        for name, value in instructions:
            if name == "RUN":
                run("sh", "-n", "-c", value)

    def test_it_copies_the_package_by_the_name_that_the_script_gives_it(self):
        with open(os.path.join(PACKAGING, "debian/build")) as file:
            self.assertIn("package=$output/hutch_${version}_$architecture.deb", file.read())
        self.assertIn(("COPY", "hutch_*.deb /tmp/"), self.instructions())

    def test_it_serves_on_every_address_of_the_container(self):
        instructions = dict(self.instructions())
        command = json.loads(instructions["ENTRYPOINT"]) + json.loads(instructions["CMD"])
        self.assertEqual(command, ["/usr/bin/hutch", "serve", "--data", "/var/lib/hutch", "--listen", "0.0.0.0:8484"])
        self.assertEqual(instructions["EXPOSE"], "8484")


if __name__ == "__main__":
    support.main()
