"""The background engine, the shell, the configuration and the templates, as commands."""
from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
import time
import unittest

import support
from support import Scenario

setUpModule, tearDownModule = support.begin, support.finish


class Engine(Scenario):
    def test_the_second_run_is_warm_and_uses_the_same_engine(self):
        self.home.run("1")
        first = self.home.status()
        record = self.home.record("print(1)")
        second = self.home.status()
        self.assertEqual(record["start"], "warm")
        self.assertEqual(first["pid"], second["pid"])
        self.assertEqual(second["runs"], first["runs"] + 1)
        self.assertGreater(second["uptime_ms"], 0)
        self.assertEqual(second["idle_exit_ms"], 600_000)
        self.assertIn("bare", second["templates"])

    def test_status_and_stop_say_what_is(self):
        self.home.run("1")
        self.assertIn("engine %d up" % self.home.status()["pid"], self.home.call("engine", "status").text)
        pid = self.home.status()["pid"]
        self.assertEqual(self.home.call("engine", "stop").code, 0)
        self.assertTrue(support.settle(lambda: pid not in support.descendants()))
        self.assertEqual(self.home.status(), {"running": False})
        self.assertIn("no engine", self.home.call("engine", "status").text)
        self.assertEqual(self.home.call("engine", "stop").code, 0)
        self.assertEqual(self.home.run("print(1)").text, "1\n")

    def test_stop_lets_a_run_finish(self):
        self.home.run("1")
        with self.home.start("run", "-c", "import time; time.sleep(1); print('whole')", stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE) as process:
            support.settle(lambda: self.home.status().get("running_now") == 1)
            self.home.stop()
            self.assertEqual(process.communicate(timeout=20)[0], b"whole\n")

    def test_only_its_owner_may_talk_to_it(self):
        self.home.run("1")
        mode = os.lstat(self.home.runtime + "/engine.sock").st_mode
        self.assertTrue(stat.S_ISSOCK(mode))
        self.assertEqual(stat.S_IMODE(mode), 0o600)
        self.assertEqual(stat.S_IMODE(os.stat(self.home.runtime).st_mode), 0o700)

    def test_a_runtime_directory_that_others_can_enter_is_refused(self):
        with self.home.folder() as folder:
            for mode in (0o755, 0o710, 0o701, 0o777):
                os.chmod(folder, mode)
                done = self.home.run("1", env={"HUTCH_RUNTIME_DIR": folder})
                self.check_refused(done, "hint:", "0700")
            os.symlink(self.home.runtime, folder + "/link")
            self.check_refused(self.home.run("1", env={"HUTCH_RUNTIME_DIR": folder + "/link"}), "hint:")
            self.check_refused(self.home.run("1", env={"HUTCH_RUNTIME_DIR": folder + "/x" * 120}), "hutch:")

    def test_a_new_binary_gets_a_new_engine(self):
        with self.home.folder() as folder:
            copy = shutil.copy2(support.HUTCH, folder)
            self.home.hutch = copy
            try:
                self.home.run("1")
                first = self.home.status()["pid"]
                os.utime(copy)
                self.assertEqual(self.home.run("print(1)").text, "1\n")
                second = self.home.status()["pid"]
                self.assertNotEqual(first, second)
                self.assertTrue(support.settle(lambda: first not in support.descendants()))
                self.home.stop()
            finally:
                self.home.hutch = support.HUTCH
        self.check_alive()

    def test_an_engine_that_was_killed_is_replaced(self):
        self.home.run("1")
        os.kill(self.home.status()["pid"], 9)
        self.assertEqual(self.home.run("print(1)").text, "1\n")

    def test_a_keeper_that_was_killed_is_replaced(self):
        self.home.run("1")
        engine = self.home.status()["pid"]
        keeper = next(pid for pid, name in support.descendants(engine).items() if name == "hutch-keeper")
        os.kill(keeper, 9)
        support.settle(lambda: keeper not in support.descendants())
        self.assertEqual(self.home.run("print(1)").text, "1\n")

    def test_a_zygote_that_was_killed_is_replaced(self):
        self.home.run("1")
        engine = self.home.status()["pid"]
        zygotes = [pid for pid, name in support.descendants(engine).items() if name.startswith("python")]
        zygote = min(zygotes)  # the runner that waits for a task was forked from it
        os.kill(zygote, 9)
        support.settle(lambda: zygote not in support.descendants())
        self.assertEqual(self.home.run("print(1)").text, "1\n")

    def test_a_dead_socket_is_no_obstacle(self):
        self.home.stop()
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(self.home.runtime + "/engine.sock")
        self.assertEqual(self.home.run("print(1)").text, "1\n")

    def test_many_first_runs_start_one_engine(self):
        self.home.stop()
        clients = [self.home.start("run", "-c", "print(%d)" % i, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
                   for i in range(6)]
        self.assertEqual([client.communicate(timeout=30)[0] for client in clients], [b"%d\n" % i for i in range(6)])
        engines = [pid for pid, name in support.descendants().items() if name == "hutch-keeper"]
        self.assertEqual(len(engines), 1)

    def test_without_an_engine_nothing_stays(self):
        self.home.stop()
        support.settle(lambda: not support.descendants())
        record = self.home.record("print('cold')", "--no-engine")
        self.assertEqual((record["start"], record["stdout"]), ("cold", "cold\n"))
        self.assertTrue(support.settle(lambda: not support.descendants(), 1), support.descendants())
        self.assertEqual(self.home.status(), {"running": False})

    def test_descriptors_do_not_grow(self):
        self.home.run("1")
        import engine_protocol as protocol

        def runs(count: int) -> None:
            for i in range(count):
                code = ("print(1)", "1/0", "open('f', 'w').write('x')", "import os; os._exit(3)")[i % 4]
                with protocol.Client(self.home.runtime + "/engine.sock") as client:
                    client.hello()
                    self.assertIsNotNone(client.run(protocol.Request(code, want_files=i % 2 == 0)).record)

        runs(10)
        before = support.idle_counts(self.home)
        runs(200)
        self.assertEqual(support.idle_counts(self.home), before)


class Shell(Scenario):
    def shell(self, text: str, *options: str) -> support.Done:
        return self.home.call("shell", *options, stdin=text.encode(), within=30)

    def test_state_is_kept_and_values_are_shown(self):
        done = self.shell("x = 20\nx + 1\nprint(x * 2)\n'text'\nNone\n")
        self.assertEqual((done.code, done.text, done.errors), (0, "21\n40\n'text'\n", ""))

    def test_blocks_of_several_lines(self):
        done = self.shell("def f(n):\n    for i in range(n):\n        if i:\n            print(i)\n\nf(3)\nclass A:\n"
                          "    y = 5\n\nA.y\n'''a\nb'''\n(1 +\n2)\n")
        self.assertEqual((done.text, done.errors), ("1\n2\n5\n'a\\nb'\n3\n", ""))

    def test_an_exception_is_not_the_end(self):
        done = self.shell("x = 1\n1/0\nprint('still', x)\nimport nosuch\nx = = 2\nprint('here')\n")
        self.assertEqual((done.code, done.text), (0, "still 1\nhere\n"))
        for word in ("ZeroDivisionError", "ModuleNotFoundError", "SyntaxError"):
            self.assertIn(word, done.errors)

    def test_exit(self):
        self.assertEqual(self.shell("print(1)\nexit()\nprint(2)\n").text, "1\n")
        self.assertEqual(self.shell("exit(7)\n").code, 7)
        self.assertEqual(self.shell("import sys; sys.exit(3)\n").code, 3)

    def test_a_block_that_the_end_of_input_closes(self):
        self.assertEqual(self.shell("for i in range(2):\n    print(i)").text, "0\n1\n")

    def test_top_level_await_and_files(self):
        done = self.shell("import asyncio\nawait asyncio.sleep(0, 'slept')\nopen('f', 'w').write('abc')\n"
                          "open('f').read()\n")
        self.assertEqual((done.text, done.errors), ("'slept'\n3\n'abc'\n", ""))

    def test_each_cell_has_the_time_limit(self):
        done = self.shell("import time\ntime.sleep(0.4)\ntime.sleep(0.4)\nprint('fine')\nwhile True: pass\n",
                          "--timeout", "0.8")
        self.assertEqual((done.code, done.text), (124, "fine\n"))

    def test_without_an_engine(self):
        self.assertEqual(self.shell("x = 2\nx * 3\n", "--no-engine").text, "6\n")

    def test_an_empty_shell(self):
        self.assertEqual((self.shell("").code, self.shell("\n\n").code), (0, 0))


class Configuration(Scenario):
    def config(self, text: str) -> str:
        path = self.home.directory + "/config.toml"
        with open(path, "w") as file:
            file.write(text)
        return path

    def test_file_then_variable_then_flag(self):
        path = self.config('[limits]\nmemory = "100M"\ntimeout = 7\nprocesses = 20\n')
        everything = self.home.call("config", "--json", env={"HUTCH_CONFIG": path, "HUTCH_LIMITS_TIMEOUT": "9"}).record
        self.assertEqual(everything["limits.memory"], {"value": str(100 << 20), "origin": path})
        self.assertEqual(everything["limits.timeout"], {"value": "9", "origin": "HUTCH_LIMITS_TIMEOUT"})
        self.assertEqual(everything["limits.inodes"]["origin"], "default")
        self.assertIn("limits.memory", self.home.call("config", env={"HUTCH_CONFIG": path}).text)
        code = "import resource; print(resource.getrlimit(resource.RLIMIT_NPROC)[0])"
        self.assertEqual(self.home.run(code, env={"HUTCH_CONFIG": path}).text,
                         "%d\n" % support.process_rlimit(20))
        self.assertEqual(self.home.run(code, "--processes", "30", env={"HUTCH_CONFIG": path}).text,
                         "%d\n" % support.process_rlimit(30))

    def test_a_limit_from_a_variable_is_enforced(self):
        record = self.home.record("x = b'x' * (1 << 30)", env={"HUTCH_LIMITS_MEMORY": "64M"})
        self.assertEqual(record["error"]["limit"]["value"], 64 << 20)

    def test_ceilings_are_configured_and_shown(self):
        least = {"HUTCH_LIMITS_MEMORY": "150M", "HUTCH_LIMITS_SCRATCH": "16M"}
        for setting, option, value, most in (("memory", "--memory", "200M", 200 << 20),
                                             ("scratch", "--scratch", "20M", 20 << 20),
                                             ("processes", "--processes", "70", 70),
                                             ("cpu_percent", "--cpu", "110", 110)):
            with self.subTest(setting):
                env = {**least, "HUTCH_ENGINE_MAX_" + setting.upper(): value}
                config = self.home.call("config", "--json", env=env).record
                self.assertEqual(config["engine.max_" + setting]["value"], str(most))
                done = self.home.run("print(1)", "%s=%d" % (option, most + 1), env=env)
                self.assertEqual(done.code, support.OWN_FAILURE)
                self.assertIn("and %d, not %d" % (most, most + 1), done.errors)
                self.assertIn("engine.max_" + setting, done.errors)

    def test_ceilings_that_are_not_given_are_the_machines(self):
        config = self.home.call("config", "--json", env={"HUTCH_ENGINE_MAX_MEMORY": "0"}).record
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        self.assertEqual(int(config["engine.max_memory"]["value"]), max(512 << 20, min(memory // 2, 64 << 30)))
        self.assertEqual(int(config["engine.max_cpu_percent"]["value"]), 100 * os.cpu_count())
        config = self.home.call("config", "--json", env={"HUTCH_LIMITS_MEMORY": "100G"}).record
        self.assertEqual(int(config["engine.max_memory"]["value"]), 100 << 30)

    def test_the_ceiling_can_be_raised(self):
        done = self.home.run("print(1)", "--timeout", "400", env={"HUTCH_ENGINE_MAX_TIMEOUT": "600"})
        self.assertEqual((done.code, done.text, done.errors), (0, "1\n", ""))

    def test_mistakes_are_named(self):
        for text, words in (("[limits]\nmemroy = 5\n", "limits.memroy"), ("[limits]\nmemory = 'lots'\n", "lots"),
                            ("[limits\n", "config.toml:1"), ("[limits]\nmemory = true\n", "limits.memory"),
                            ("[limits]\nprocesses = -4\n", "-4"), ("unknown = 1\n", "unknown")):
            with self.subTest(text):
                self.check_refused(self.home.run("1", env={"HUTCH_CONFIG": self.config(text)}), words)
        self.check_refused(self.home.run("1", env={"HUTCH_CONFIG": "/nowhere.toml"}), "/nowhere.toml")
        self.check_refused(self.home.run("1", env={"HUTCH_LIMITS_MEMORY": "lots"}), "HUTCH_LIMITS_MEMORY", "lots")

    def test_the_users_own_file_is_found(self):
        folder = self.home.directory + "/.config/hutch"
        os.makedirs(folder)
        try:
            with open(folder + "/config.toml", "w") as file:
                file.write("[limits]\ninodes = 777\n")
            self.assertEqual(self.home.call("config", "--json").record["limits.inodes"]["value"], "777")
        finally:
            shutil.rmtree(self.home.directory + "/.config")


class Templates(Scenario):
    def test_list_and_show(self):
        listed = self.home.call("template", "list", "--json")
        self.assertEqual(listed.code, 0)
        text = json.dumps(json.loads(listed.out))
        self.assertIn('"bare"', text)
        self.assertIn('"default"', text)
        shown = self.home.call("template", "show", "bare", "--json")
        self.assertEqual(json.loads(shown.out)["name"], "bare")
        self.assertIn("bare", self.home.call("template", "list").text)
        self.assertIn("/usr/bin/python3", self.home.call("template", "show", "bare").text)
        unknown = self.home.call("template", "show", "nosuch")
        self.assertNotEqual(unknown.code, 0)
        self.assertIn("known templates: bare", unknown.errors)

    def test_without_the_default_template_bare_is_used_and_said(self):
        with self.home.folder() as folder:
            environment = {"HUTCH_DATA_DIR": folder, "HUTCH_TEMPLATE": "", "HUTCH_RUNTIME_DIR": folder + "/r"}
            os.mkdir(folder + "/r", 0o700)
            done = self.home.run("print(1)", "--no-engine", env=environment)
            self.assertEqual((done.code, done.text), (0, "1\n"), done.errors)
            self.assertIn("bare", done.errors)
            self.assertIn("hutch template build default", done.errors)
            record = self.home.run("print(1)", "--no-engine", "--json", env=environment).record
            self.assertEqual((record["template"], len(record["notices"])), ("bare", 1))
            self.check_refused(self.home.run("1", "--no-engine", "--template", "default", env=environment), "default",
                               "hutch template build default")


if __name__ == "__main__":
    support.main()
