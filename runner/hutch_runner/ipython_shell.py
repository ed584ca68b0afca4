"""Cells as IPython runs them: magics, top-level await, `_`, `Out`, its way of showing values."""
from __future__ import annotations

import atexit
import builtins
import sys

from .cell import Cell, Shell, is_incomplete
from .wire import CELL_INCOMPLETE, CELL_OK, Channel

__builtins__ = dict(vars(builtins))

_prepared: list = []  # the InteractiveShell, and the builtins that belong to it


def prepare() -> None:
    """Makes the one InteractiveShell, in the zygote if it can be; scripts see nothing of it."""
    from IPython.core.displayhook import DisplayHook
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    class PlainDisplayHook(DisplayHook):
        """The value alone: there is no prompt it would belong to."""

        prompt_end_newline = True  # none is wanted before a value of several lines

        def write_output_prompt(self) -> None:
            pass

    class CellShell(InteractiveShell):
        """Errors are told by whoever asked for the cell."""

        displayhook_class = PlainDisplayHook

        def showtraceback(self, *_, **__) -> None:
            pass

        def showsyntaxerror(self, *_, **__) -> None:
            pass

        def enable_gui(self, gui=None) -> None:
            pass

    settings = Config()
    settings.HistoryManager.enabled = False  # it would start a thread
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
    for _ in range(20):  # until CPython has chosen its quick instructions
        shell.run_cell("", store_history=False)
    _prepared[:] = (shell, own)


class IPythonShell(Shell):
    """The same conversation as with a plain shell."""

    def __init__(self, channel: Channel, workspace: str) -> None:
        super().__init__(channel, workspace)
        if not _prepared:
            prepare()
        self._shell, own = _prepared
        vars(builtins).update(own)
        atexit.register(self._shell.atexit_operations)
        self._shell.user_module = self.main[0]
        self._shell.user_ns = self.main[0].__dict__
        self._shell.init_user_ns()
        for name in ("exit", "quit"):  # those that Python has will do
            self._shell.user_ns[name] = getattr(builtins, name)

    def _run(self, cell: Cell) -> int:
        text = cell.text()
        self._shell.compile.get_code_name = lambda *_: cell.file_name
        result = self._shell.run_cell(text, store_history=True)
        error = result.error_before_exec or result.error_in_exec
        if error is None:
            return CELL_OK
        if isinstance(error, SyntaxError) and is_incomplete(text):
            return CELL_INCOMPLETE
        trace = error.__traceback__
        while trace is not None and not cell.codes:
            if trace.tb_frame.f_code.co_filename == cell.file_name:
                cell.codes.append(trace.tb_frame.f_code)  # the user's part of the traceback begins here
            trace = trace.tb_next
        raise error
