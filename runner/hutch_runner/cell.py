"""Cell mode: one interpreter, many cells, and a value at the end of a cell is displayed."""
from __future__ import annotations

import _signal
import _thread
import ast
import builtins
import codeop
import sys
import warnings

from . import display, errors, finish, hooks, main, script
from .changes import Changes
from .source import ALLOW_TOP_LEVEL_AWAIT, Program
from .session_input import SessionInput
from .wire import ANSWER, ASK, CELL_ERROR, CELL_EXIT, CELL_INCOMPLETE, CELL_OK
from .wire import PUT_FILE, RUN_CELL, RUN_IN_SESSION
from .wire import Ask, Channel, ProtocolError, PutFile, RunInSession, RunScript, decode_run_cell

__builtins__ = dict(vars(builtins))

FUTURES = 0x01FE0000  # the bits of co_flags that `from __future__ import …` sets

rest = None  # waits for the next task in a way that takes less memory

_signal_set = _signal.signal
_interrupt = KeyboardInterrupt


def run(channel: Channel, workspace: str, ipython: bool) -> None:
    """Runs cells until the engine hangs up or a cell exits; ends the process."""
    shell = None
    try:
        shell = make_shell(ipython)(channel, workspace)
        Session(channel, workspace, shell).serve()
    except BaseException as error:
        main.give_up(error)
    finish.leave(shell.exit_code, shell.main, channel)


class Session:
    """Cells and questions, one after the other."""

    def __init__(self, channel: Channel, workspace: str, shell: Shell) -> None:
        from . import inspector  # before a program's own modules can be in the way of what it needs

        self._channel = channel
        self._workspace = workspace
        self._shell = shell
        self._kind = 0 if shell.ipython is None else 1  # see rehearsal.sessions()
        self._inspector = inspector
        self._input = SessionInput(channel)
        self._changes = Changes(shell.main[0].__dict__, workspace)

    def serve(self) -> None:
        going = True
        while going:
            # Other threads may read tasks too, and keep them for us: then only receive() hears of them.
            if rest is not None and not self._channel.has_more() and not _thread._count():
                rest(self._channel.fd, self._kind)
            frame = self._channel.receive()
            going = frame is not None and self.carry_out(*frame)

    def carry_out(self, kind: int, payload: bytes) -> bool:
        """False when there is to be no next one."""
        if kind == RUN_CELL:
            text = decode_run_cell(payload)
            return self._end_cell(text, self._shell.run_cell(text), 0)
        if kind == RUN_IN_SESSION:
            task = RunInSession(payload)
            return self._end_cell(b"" if task.is_command else task.code, *self._run_task(task))
        if kind == PUT_FILE:
            main.put_file(PutFile(payload), self._workspace)
        elif kind == ASK:
            about = self._inspector.Inspector(self._shell.main[0].__dict__, self._shell.ipython)
            self._channel.send(ANSWER, about.answer(Ask(payload)))
        else:
            raise ProtocolError("task %d was not expected" % kind)
        return True

    def _run_task(self, task: RunInSession) -> tuple[int, int]:
        self._input.give(task.input, task.input_text)
        if not task.tools or task.is_command:
            return self._shell.run_task(task)
        from . import host_tools

        host_tools.offer(self._channel, task.tools)
        outcome = self._shell.run_task(task)
        host_tools.withdraw(self._channel)
        return outcome

    def _end_cell(self, text: bytes, status: int, code: int) -> bool:
        shell = self._shell
        finish.flush_streams()
        changed = self._changes.after(text, shell.main[0].__dict__)
        ours = self._channel.end_cell(changed, bytes((status, code)) + shell.last_count.to_bytes(4, "little"))
        if status == CELL_EXIT:
            return False
        if not ours:  # a process that the cell forked, or the socket is gone: no next cell
            shell.exit_code = 1 if status == CELL_ERROR else 0
        return ours


def run_script(task: RunScript, channel: Channel, workspace: str) -> None:
    """Runs a program as one cell, and ends the process as a script does."""
    code = 1
    main = []
    try:
        shell = make_shell(has_ipython())(channel, workspace, task)
        main = shell.main
        if task.tools:
            from . import host_tools

            host_tools.offer(channel, task.tools)
        channel.start()
        status = shell.run_cell(task.code)
        if status == CELL_INCOMPLETE:
            shell.report_incomplete(task.code)
            status = CELL_ERROR
        code = shell.error_code if status == CELL_ERROR else shell.exit_code
    except BaseException:  # a second failure while the first was reported
        pass
    finish.leave(code, main, channel)


def has_ipython() -> bool:
    """Whether the template has it, and it works."""
    try:
        from . import ipython_shell

        ipython_shell.prepare()
        return True
    except Exception:
        return False


def make_shell(ipython: bool) -> type[Shell]:
    if not ipython:
        return Shell
    from .ipython_shell import IPythonShell

    return IPythonShell


class Shell:
    """The namespace of __main__ and what must survive from one cell to the next."""

    ipython = None  # its shell, where there is one

    def __init__(self, channel: Channel, workspace: str, program: RunScript | None = None) -> None:
        """With `program` there will be one cell: that program, under the name and with the arguments it has."""
        self.exit_code = 0
        self.error_code = 1  # of a program that an exception ended
        self.last_count = 0  # which cell that was; 0 for a command
        self.main = [script.new_main(program.file_name if program is not None and program.has_file else None)]
        self._program = program
        self._channel = channel
        self._count = 0
        self._flags = ALLOW_TOP_LEVEL_AWAIT  # and the __future__ imports of earlier cells
        self._loop = None
        self._on_interrupt = _signal.default_int_handler
        self._listen_quietly()
        if program is None:
            sys.argv = [""]
            sys.orig_argv = [sys.executable]
            script.set_first_path(workspace)
        else:
            script.set_arguments(program, workspace)
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(line_buffering=True)  # a long cell is watched while it runs
        hooks.connect(channel)
        channel.on_tool_result = ignore_result
        self._prepare_displays()

    def _prepare_displays(self) -> None:
        sys.displayhook = display.show_result
        for show in (display.display, display.update_display, display.clear_output):
            setattr(builtins, show.__name__, show)

    def _name(self) -> str:
        """What tracebacks call the current cell."""
        return "<cell %d>" % self._count if self._program is None else self._program.file_name

    def run_cell(self, raw: bytes) -> int:
        """The status for the engine. Files, threads and names the cell leaves behind stay."""
        self._count += 1
        self.last_count = self._count
        cell = Cell(self._name(), raw, self._program is not None and self._program.has_file)
        try:
            try:
                status = self._execute(cell)
                if status == CELL_INCOMPLETE:  # it will come again
                    self._count -= 1
                return status
            finally:
                self._listen_quietly()
        except BaseException as raised:
            error = raised  # dealt with below: a hook must not find itself inside our except clause
        self._listen_quietly()  # again: the interrupt may have come during the first
        if isinstance(error, SystemExit):
            self.exit_code = finish.exit_code(error)
            return CELL_EXIT
        host_tools = sys.modules.get("hutch_runner.host_tools")
        if host_tools is not None:
            host_tools.hide_own_frames(error)
        self.error_code = errors.report(error, self._channel, cell)
        return CELL_ERROR

    def run_task(self, task: RunInSession) -> tuple[int, int]:
        """The status, and the exit code of a command or of the whole session."""
        if not task.is_command:
            status = self.run_cell(task.code)
            if status == CELL_INCOMPLETE:  # nobody is there who could type the rest
                self.report_incomplete(task.code)
                status = CELL_ERROR
            return status, self.exit_code & 255 if status == CELL_EXIT else 0
        self.last_count = 0
        finish.flush_streams()  # what was printed before comes before what the command writes
        try:
            try:
                _signal_set(_signal.SIGINT, self._on_interrupt)
                code = run_command(task.code)
            finally:
                self._listen_quietly()
        except BaseException as error:
            self._listen_quietly()
            errors.report(error, self._channel, Cell("<command>", task.code, False))
            return CELL_ERROR, 130 if isinstance(error, _interrupt) else 126
        return (CELL_ERROR if code else CELL_OK), code

    def report_incomplete(self, code: bytes) -> None:
        """Of a cell that nobody will complete: then it is one that failed."""
        self._count = self.last_count
        cell = Cell(self._name(), code, False)
        try:
            compile(cell.text(), cell.file_name, "exec", self._flags, True)
        except SyntaxError as error:
            errors.report(error, self._channel, cell)

    def _execute(self, cell: Cell) -> int:
        """SIGINT reaches the cell by the handler the cells have chosen, and only while one runs."""
        _signal_set(_signal.SIGINT, self._on_interrupt)
        try:
            status = self._run(cell)
        except BaseException:
            show_figures(after_error=True)
            raise
        show_figures(after_error=False)
        return status

    def _run(self, cell: Cell) -> int:
        if not cell.parse(self._flags):
            return CELL_INCOMPLETE
        self._flags |= cell.flags & FUTURES
        names = self.main[0].__dict__
        for code in cell.codes:
            result = eval(code, names)
            if code.co_flags & script.COROUTINE:
                self._wait_for(result)
        return CELL_OK

    def _wait_for(self, coroutine) -> None:
        """One event loop for all cells: what was opened in one can be awaited in another."""
        import asyncio

        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        task = self._loop.create_task(coroutine)
        try:
            self._loop.run_until_complete(task)
        except BaseException:
            if not task.done():  # interrupted: the cell is over, its coroutine must be too
                task.cancel()
                try:
                    self._loop.run_until_complete(task)
                except BaseException:
                    pass
            raise

    def _listen_quietly(self) -> None:
        """Between cells SIGINT does nothing. One that is already on its way may still raise: then again."""
        while True:
            try:
                handler = _signal_set(_signal.SIGINT, ignore_signal)
                break
            except _interrupt:
                continue
        if handler is not ignore_signal and handler is not None:
            self._on_interrupt = handler


def show_figures(after_error: bool) -> None:
    """Those that a cell left open. The error of a cell is more important than one in a figure."""
    pyplot = sys.modules.get("matplotlib._pylab_helpers")
    if pyplot is None or not pyplot.Gcf.figs:
        return
    from . import figures

    try:
        figures.show_all()
    except Exception:
        if not after_error:
            raise


def run_command(text: bytes) -> int:
    """As a shell would count: 128 and more for one that a signal ended."""
    import subprocess

    code = subprocess.call(["/bin/sh", "-c", text], restore_signals=True)
    return 128 - code if code < 0 else code


def ignore_result(payload: bytes) -> None:
    """Of a call that was not made by our functions."""


def ignore_signal(number: int, frame: object) -> None:
    pass


class Cell(Program):
    """The source of one cell."""

    __slots__ = ("flags",)

    def text(self) -> str:
        try:
            return self.raw.removeprefix(b"\xef\xbb\xbf").decode()
        except ValueError as error:
            raise SyntaxError(str(error)) from None

    @staticmethod
    def _is_one_simple_line(text: str) -> bool:
        """Most cells of an agent; no syntax tree need be made of them. A colon may begin a block, where values of
        expressions would be displayed too."""
        return not ("\n" in text or ":" in text or ";" in text)

    def parse(self, flags: int) -> bool:
        """Compiles everything before anything runs. False when more lines are needed to make sense of it."""
        text = self.text()
        if text[:1] in (" ", "\t", "\n", "\r"):
            text = without_indent(text)
            self.raw = text.encode("utf-8", "surrogatepass")  # so that columns in tracebacks are right
        if self._is_one_simple_line(text):
            try:
                code = compile(text, self.file_name, "single", flags, True)  # its value goes to sys.displayhook
                self.flags = code.co_flags
                self.codes.append(code)
                return True
            except (SyntaxError, ValueError):
                pass  # to be looked at more closely
        try:
            tree = compile(text, self.file_name, "exec", flags | ast.PyCF_ONLY_AST, True)
        except SyntaxError:
            if is_incomplete(text):
                return False
            raise
        except ValueError as error:  # null bytes
            raise SyntaxError(str(error)) from None
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        first = compile(tree, self.file_name, "exec", flags, True)
        self.flags = first.co_flags
        self.codes.append(first)
        if last is not None:  # in this mode the value goes to sys.displayhook
            shown = ast.Interactive([last])
            self.codes.append(compile(shown, self.file_name, "single", flags | first.co_flags & FUTURES, True))
        return True


def without_indent(text: str) -> str:
    """A cell cut out of a block: the indent of its first line that has any code is taken from all."""
    lines = text.split("\n")
    first = next((line for line in lines if line.strip() and not line.lstrip().startswith("#")), "")
    indent = first[: len(first) - len(first.lstrip(" \t"))]
    return "\n".join([line.removeprefix(indent) for line in lines]) if indent else text


def is_incomplete(text: str) -> bool:
    """Asked only about text that does not compile."""
    command = codeop.CommandCompiler()
    command.compiler.flags |= ALLOW_TOP_LEVEL_AWAIT
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return command(text, "<cell>", "exec") is None
    except (SyntaxError, ValueError, OverflowError, MemoryError, RecursionError):
        return False
