"""Stubs for compiled modules: a ``.pyi`` says what Python code may use of one, for type checkers.

It is made of what is written already: enums and public fields stand in the header, functions and methods with their
annotations in the module. A header says more of a field where C's type says too little: a comment that begins with a
type in backquotes, as in ``cdef readonly list tubes  # `list[Tube]` in the order of creation``. Names from ``typing``
and ``collections.abc`` need no import in an annotation that only the stub reads. mypy complains of what has no
annotation.
"""

import ast
import builtins
import collections.abc
import re
import typing
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path("src")

C_INTEGER = re.compile(
    r"u?int(8|16|32|64)_t|u?(char|short|int|long|longlong)|(unsigned |long )*(int|long|char)|Py_s?size_t"
)
C_TYPES = {"bint": "bool", "double": "float", "float": "float", "void": "None"}
CONTAINERS = {"list": "list[Any]", "set": "set[Any]", "dict": "dict[Any, Any]", "tuple": "tuple[Any, ...]"}
C_ONLY = {"__cinit__", "__dealloc__", "__reduce__"}
"""Methods that Python code can't call."""


def python_type(c_type: str) -> str:
    """A type of a header or of Cython's pure mode, for Python."""
    name = c_type.removeprefix("cython.").strip()
    return "int" if C_INTEGER.fullmatch(name) else C_TYPES.get(name) or CONTAINERS.get(name, name)


def annotation(node: ast.expr | None) -> str:
    """Return an annotation with Python's types where C's stand; empty: there is none."""
    text = ast.unparse(node).strip("'") if node else ""
    return re.sub(r"\b[\w.]+\b(?!\[)", lambda found: python_type(found[0]), text)


def signature(function: ast.FunctionDef, indent: str = "") -> Iterator[str]:
    """A function as a stub has it: without its body."""
    arguments = function.args
    defaults = [None] * (len(arguments.args) - len(arguments.defaults)) + arguments.defaults
    for argument, default in zip(arguments.args, defaults, strict=True):
        if text := annotation(argument.annotation):
            is_none = isinstance(default, ast.Constant) and default.value is None
            argument.annotation = ast.Name(text + " | None" if is_none and "None" not in text else text)
    for each in (arguments.defaults, arguments.kw_defaults):
        each[:] = [ast.Constant(...) if value and not isinstance(value, ast.Constant) else value for value in each]
    gives = any(isinstance(node, ast.Return | ast.Yield) and node.value for node in ast.walk(function))
    returns = annotation(function.returns) or ("" if gives else "None")
    for decorator in map(ast.unparse, function.decorator_list):
        if not decorator.startswith("cython."):
            yield f"{indent}@{decorator}"
    if function.name == "__cinit__":
        function.name, arguments.args[0].arg, returns = "__new__", "cls", "Self"
    yield f"{indent}def {function.name}({ast.unparse(arguments)})" + (f" -> {returns}" if returns else "") + ": ..."


class Header:
    """What a ``.pxd`` declares: the lines of a stub, by class, and the functions that Python code can't call."""

    def __init__(self, path: Path) -> None:
        self.enums: list[str] = []
        self.classes: dict[str, list[str]] = {}
        self.hidden: set[tuple[str, str]] = set()
        self.modules: dict[str, str] = {}
        self.where = ""  # the class; "enum" and "enum of ints" for those
        self.value = -1
        decorators = ""
        for line in path.read_text().splitlines():
            code, _, comment = line.partition("#")
            told = re.match(r" *`([^`]*)`", comment)
            if code[:1] not in ("", " ", "@"):
                self.outside(code.rstrip(), told[1] if told else "", decorators)
            elif code.strip() and code[0] == " ":
                self.inside(code.strip(), told[1] if told else "")
            decorators = decorators + code.strip() if code.startswith("@") else ""

    def outside(self, code: str, told: str, decorators: str) -> None:
        """Read a line of the module."""
        self.where = ""
        if found := re.match(r"from (\S+) cimport (.*)", code):
            self.modules.update(dict.fromkeys(re.findall(r"\w+", found[2]), found[1]))
        elif found := re.match(r"cpdef enum ?(\w*):", code):
            self.value = -1
            self.where = "enum" if found[1] else "enum of ints"
            if found[1]:
                self.enums += [f"class {found[1]}(IntFlag):"]
        elif found := re.match(r"cdef class (\w+)(?:\((\w+)\))?:", code):
            self.where = found[1]
            module, _, told = told.rpartition(".")
            if module:
                self.modules[told] = module
            bases = ", ".join(each for each in (told, found[2]) if each)
            base = self  # what the base class declares is not for Python code here either
            if found[2] in self.modules:
                base = Header(SOURCE.joinpath(*self.modules[found[2]].split(".")).with_suffix(".pxd"))
            self.hidden |= {(found[1], method) for where, method in base.hidden if where == found[2]}
            self.classes[self.where] = ["@final"] * ("cython.final" in decorators) + [
                f"class {found[1]}({bases}):".replace("()", "")
            ]
        elif found := re.match(r"cdef .*?\b(\w+)\(", code):
            self.hidden.add(("", found[1]))

    def inside(self, code: str, told: str) -> None:
        """Read a line of an enum or a class."""
        if self.where.startswith("enum") and (found := re.fullmatch(r"(\w+)(?: = (\w+))?", code)):
            self.value = int(found[2], 0) if found[2] else self.value + 1
            self.enums += [f"    {found[1]} = {self.value}" if self.where == "enum" else f"{found[1]}: int"]
        elif found := re.fullmatch(r"cdef (readonly|public) (.+?) ?(\w+)", code):
            kind = told or python_type(found[2])
            self.classes[self.where] += (
                ["    @property", f"    def {found[3]}(self) -> {kind}: ..."]
                if found[1] == "readonly"
                else [f"    {found[3]}: {kind}"]
            )
        elif found := re.match(r"cpdef (.+?) ?(\w+)\((.*?)\)", code):
            arguments = [each.strip().rpartition(" ") for each in found[3].split(",")]
            listed = ", ".join(f"{name}: {python_type(kind)}" if kind else name for kind, _, name in arguments)
            self.classes[self.where] += [f"    def {found[2]}({listed}) -> {told or python_type(found[1])}: ..."]
            self.hidden.add((self.where, found[2]))
        elif found := re.match(r"cdef .*?\b(\w+)\(", code):
            self.hidden.add((self.where, found[1]))


def members(tree: ast.Module, header: Header) -> Iterator[str]:
    """What a compiled module itself has for Python code: constants, functions, and classes with their methods."""
    for node in tree.body:
        if isinstance(node, ast.AnnAssign):
            yield f"{ast.unparse(node.target)}: {annotation(node.annotation)}"
        elif isinstance(node, ast.Assign) and isinstance(
            value := node.value.operand if isinstance(node.value, ast.UnaryOp) else node.value,  # a number below 0
            ast.Constant | ast.Dict | ast.List | ast.Tuple,
        ):
            kind = type(value.value if isinstance(value, ast.Constant) else value).__name__
            yield f"{ast.unparse(node.targets[0])}: {python_type(kind.lower())}"
        elif isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("TypeVar("):
            yield ast.unparse(node)
        elif isinstance(node, ast.FunctionDef) and is_visible(node, "", header):
            yield from signature(node)
        elif isinstance(node, ast.ClassDef):
            yield from header.classes.get(node.name, class_of_its_own(node))
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
            has_init = any(each.name == "__init__" for each in methods)
            for each in node.body:
                if isinstance(each, ast.AnnAssign):
                    yield f"    {ast.unparse(each)}"
                elif isinstance(each, ast.FunctionDef) and (
                    is_visible(each, node.name, header) or (each.name == "__cinit__" and not has_init)
                ):
                    yield from signature(each, "    ")
            yield "    ..."  # a class needs a body


def class_of_its_own(node: ast.ClassDef) -> list[str]:
    """The first lines of a class that no ``.pxd`` declares."""
    is_final = any(ast.unparse(each) == "cython.final" for each in node.decorator_list)
    return ["@final"] * is_final + [f"class {ast.unparse(node).partition('class ')[2].splitlines()[0]}"]


def is_visible(function: ast.FunctionDef, where: str, header: Header) -> bool:
    """Whether Python code can call a function of a module, or a method of the class `where`."""
    is_c = any(ast.unparse(each) == "cython.cfunc" for each in function.decorator_list)
    return not is_c and function.name not in C_ONLY and (where, function.name) not in header.hidden


def imports(tree: ast.Module, header: Header, lines: list[str]) -> Iterator[str]:
    """Return the imports of the names that a stub uses."""
    modules = dict(header.modules)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            modules.update({each.name: (node.module or "").removeprefix("cython.cimports.") for each in node.names})
    text = "\n".join(lines)
    used = set(re.findall(r"(?<!\.)\b[A-Za-z]\w*", text))
    for name in sorted(used - set(re.findall(r"^class (\w+)", text, re.MULTILINE)) - set(dir(builtins))):
        if re.search(rf"\b{name}\.\w", text):
            yield f"import {name}"
        elif name == "IntFlag":
            yield "from enum import IntFlag"
        elif name in modules and not modules[name].startswith(("libc", "cpython", "posix", "cython")):
            yield f"from {modules[name]} import {name}"
        elif name in collections.abc.__all__:
            yield f"from collections.abc import {name}"
        elif name in typing.__all__:
            yield f"from typing import {name}"


def stub(module: Path) -> str:
    """The text of a compiled module's stub."""
    tree = ast.parse(module.read_text())
    header = Header(module.with_suffix(".pxd"))
    lines = [*header.enums, *members(tree, header)]
    return "\n".join(["# Made by stubs.py.", *imports(tree, header, lines), *lines, ""])
