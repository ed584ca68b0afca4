"""python -I bundle.py DIRECTORY INSIDE: compiles the runner, and puts what a cold start needs into one file.

Inside, the directory is read-only, so byte code is made now or never. Finding and checking a file for every module
would be a tenth of a cold start.
"""
import __future__
import ast
import compileall
import marshal
import py_compile
import sys
import types

# In the order in which they need each other.
MODULES = ("wire", "finish", "source", "errors", "hooks", "script", "main")


def main(directory: str, inside: str) -> None:
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH  # nobody can change the source
    if not compileall.compile_dir(directory, quiet=1, stripdir=directory, prependdir=inside, invalidation_mode=unchecked):
        sys.exit("hutch: the runner does not compile")
    codes = [(name, compiled(f"{directory}/hutch_runner/{name}.py", f"{inside}/hutch_runner/{name}.py"))
             for name in MODULES]
    with open(f"{directory}/cold.bundle", "wb") as bundle:
        marshal.dump(codes, bundle)
    py_compile.compile(f"{directory}/cold_main.py", f"{directory}/cold_main.pyc", f"{inside}/cold_main.py",
                       doraise=True, optimize=2, invalidation_mode=unchecked)


def compiled(path: str, shown: str):
    """Without the import of __future__, which would load a module to say what a flag can; and without line numbers, which
    nobody is shown and which are a quarter of the file."""
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    body = [node for node in tree.body if not (isinstance(node, ast.ImportFrom) and node.module == "__future__")]
    flags = __future__.annotations.compiler_flag if len(body) < len(tree.body) else 0
    tree.body = body
    return without_lines(compile(tree, shown, "exec", flags, True, optimize=2))


def without_lines(code: types.CodeType) -> types.CodeType:
    constants = tuple(without_lines(one) if isinstance(one, types.CodeType) else one for one in code.co_consts)
    return code.replace(co_linetable=b"", co_consts=constants)


main(*sys.argv[1:])
