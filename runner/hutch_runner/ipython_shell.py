"""Cells as IPython runs them: magics, top-level await, `_`, `Out`, its way of showing values."""
from __future__ import annotations

import atexit
import builtins
import re
import sys
import warnings

from . import finish, packages
from .cell import Cell, Shell, is_incomplete, run_command
from .wire import CELL_INCOMPLETE, CELL_OK, Channel, RunScript

__builtins__ = dict(vars(builtins))

# What IPython's own syntax begins or ends with, and an indent or empty line at the top. Where there is none of it, six
# runs of a tokenizer would leave a cell as it is, and take a third of its time.
UNUSUAL = re.compile(r"[%!?]|\A\s|^\s*(?:[/,;]|>>>|\.\.\.|In ?\[|\[(?:nav|ins)\])", re.MULTILINE).search

_prepared: list = []  # the InteractiveShell, and the builtins that belong to it


def prepare() -> None:
    """Makes the one InteractiveShell, in the zygote if it can be; scripts see nothing of it."""
    if _prepared:
        return
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    from . import ipython_display

    class CellShell(InteractiveShell):
        """Errors are told by whoever asked for the cell; values and displays go to the engine."""

        displayhook_class = ipython_display.ResultHook
        display_pub_class = ipython_display.Publisher
        codes: list = []  # what the cell that runs was compiled to
        usual_steps: list = []  # of the transformation of a cell, as IPython has them

        def init_display_formatter(self) -> None:
            self.display_formatter = ipython_display.Formatter(parent=self)
            self.configurables.append(self.display_formatter)

        def init_displayhook(self) -> None:
            super().init_displayhook()
            self.display_trap = ipython_display.Trap(hook=self.displayhook)

        def transform_cell(self, raw_cell: str) -> str:
            """With the empty lines that IPython takes away at the top: an error is to name the line that it is in."""
            if self.steps_of_transformation() == self.usual_steps and not UNUSUAL(raw_cell):
                return raw_cell if raw_cell.endswith("\n") else raw_cell + "\n"
            above = raw_cell[: len(raw_cell) - len(raw_cell.lstrip())]
            return "\n" * above.count("\n") + super().transform_cell(raw_cell)

        def steps_of_transformation(self) -> list:
            steps = self.input_transformer_manager
            return [*steps.cleanup_transforms, *steps.line_transforms, *steps.token_transformers,
                    *self.input_transformers_post]

        async def run_code(self, code_obj, *more, **named) -> bool:
            self.codes.append(code_obj)
            return await super().run_code(code_obj, *more, **named)

        def showtraceback(self, exc_tuple=None, *_, **__) -> None:
            self.display_formatter.note_failure(exc_tuple)

        def showsyntaxerror(self, *_, **__) -> None:
            pass

        def enable_gui(self, gui=None) -> None:
            pass

        def enable_matplotlib(self, gui=None) -> tuple[str, str]:
            """There is one way to show figures here, and it is on already: whatever was asked for is that."""
            from . import figures

            figures.use()
            ipython_display.offer_figure_settings(self)
            return gui or "inline", figures.BACKEND

        def system(self, command: str) -> None:
            expanded = packages.without_installs(self.var_expand(command, depth=1))
            finish.flush_streams()  # what was printed before comes before what the command writes
            self.user_ns["_exit_code"] = run_command(expanded.encode("utf-8", "surrogateescape"))

        def getoutput(self, command: str, split: bool = True, depth: int = 0):
            return super().getoutput(packages.without_installs(command), split, depth + 1)

    settings = Config()
    settings.HistoryManager.enabled = False  # it would start a thread
    settings.HistoryManager.hist_file = ":memory:"
    settings.InteractiveShell.colors = "NoColor"
    settings.InteractiveShell.autoindent = False
    before = dict(vars(builtins))
    main = sys.modules["__main__"]
    shell = CellShell.instance(config=settings, user_module=type(sys)("__main__"))
    sys.modules["__main__"] = main
    own = {name: value for name, value in vars(builtins).items() if name not in before}
    for name in own:
        delattr(builtins, name)
    atexit.unregister(shell.atexit_operations)
    shell.usual_steps = shell.steps_of_transformation()
    shell.events.register("post_execute", lambda: ipython_display.show_captured_figures(shell))
    warnings.filterwarnings("ignore", "To exit: use 'exit'")  # of a cell that does just that
    for name in ("pip", "conda", "mamba", "micromamba", "uv"):
        shell.register_magic_function(packages.magic(name), "line", name)
    if "matplotlib.pyplot" in sys.modules:
        ipython_display.offer_figure_settings(shell)
    for _ in range(20):  # until CPython has chosen its quick instructions
        shell.run_cell("None", store_history=False)
    CellShell.clear_instance()  # a script that asks finds no shell
    _prepared[:] = (shell, own)


class IPythonShell(Shell):
    """The same conversation as with a plain shell."""

    def __init__(self, channel: Channel, workspace: str, program: RunScript | None = None) -> None:
        prepare()
        self._shell, own = _prepared
        self.ipython = self._shell
        super().__init__(channel, workspace, program)
        for kind in type(self._shell)._walk_mro():
            kind._instance = self._shell
        vars(builtins).update(own)
        atexit.register(self._shell.atexit_operations)
        self._shell.user_module = self.main[0]
        self._shell.user_ns = self.main[0].__dict__
        self._shell.init_user_ns()
        for name in ("exit", "quit"):  # those that Python has will do
            self._shell.user_ns[name] = getattr(builtins, name)
            self._shell.user_ns_hidden[name] = self._shell.user_ns[name]

    def _prepare_displays(self) -> None:
        """IPython's own functions publish through our classes."""

    def _run(self, cell: Cell) -> int:
        text = cell.text()
        shell = self._shell
        shell.compile.get_code_name = lambda *_: cell.file_name
        if shell.execution_count != self._count:
            shell.execution_count = self._count
        shell.codes = cell.codes
        result = shell.run_cell(text, store_history=True)
        error = result.error_before_exec or result.error_in_exec
        if error is None:
            return CELL_OK
        if isinstance(error, SyntaxError) and is_incomplete(text):
            return CELL_INCOMPLETE
        if result.error_before_exec is not None:
            error.__traceback__ = None  # nothing of the user's has run
        elif isinstance(error, packages.PackageInstallError):
            end_at_the_cell(error.__traceback__, cell.file_name)
        raise error


def end_at_the_cell(trace, file_name: str) -> None:
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file_name:
            trace.tb_next = None
        trace = trace.tb_next
