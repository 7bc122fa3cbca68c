"""The structure of the code: who imports whom, who looks into whom, how long functions are, what is public.

Exceptions are listed by name. A list that names something that is no longer an exception fails as well.
"""

import ast
import importlib
import re
from collections import defaultdict
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import agbm

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "agbm"
PUBLIC = ["agbm", "agbm.dask", "agbm.export", "agbm.losses", "agbm.methods", "agbm.mlflow", "agbm.plot"]

MAX_LINES_OF_FUNCTION = 60
MAX_PARAMETERS = 32

# Names with an underscore that other packages offer: named tuples, scikit-learn's estimators, Dask's collections.
OF_OTHER_PACKAGES = {"_asdict", "_fields", "_make", "_replace", "_validate_params", "_meta"}


def module_name(path):
    """`_tree.bins` for src/agbm/_tree/bins.py, `_tree` for its __init__.py, `__init__` for that of the package."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


PATHS = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}
MODULES = {name: ast.parse(path.read_text()) for name, path in PATHS.items()}
NATIVE = "_base._native"


def absolute(name, node):
    """What an `import from` names, relative to the package; None for other packages."""
    if node.level == 0:
        parts = (node.module or "").split(".")
        return parts[1:] if parts[0] == "agbm" else None
    package = PATHS[name].parent.relative_to(PACKAGE).parts
    parts = package[: len(package) - node.level + 1]
    return [*parts, *(node.module.split(".") if node.module else [])]


def known(parts):
    """The module that a dotted name begins with."""
    while parts and ".".join(parts) not in {*MODULES, NATIVE}:
        parts = parts[:-1]
    return ".".join(parts) or "__init__"


def imports(name):
    """Modules of the package that a module imports anywhere, with the names taken from them (None: the module)."""
    for node in ast.walk(MODULES[name]):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "agbm":
                    yield known(alias.name.split(".")[1:]), None
        elif isinstance(node, ast.ImportFrom) and (parts := absolute(name, node)) is not None:
            for alias in node.names:
                module = known([*parts, alias.name])
                yield module, None if module.split(".") == [*parts, alias.name] else alias.name


def layers():
    """Lines of the list in docs/design.md, from the top."""
    (text,) = re.findall(r"```text layers\n(.+?)```", (ROOT / "docs" / "design.md").read_text(), re.DOTALL)
    return [line.split() for line in text.splitlines()]


def entry_of(name, entries):
    """The longest entry that a module belongs to."""
    parts = name.split(".")
    found = (".".join(parts[:n]) for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in entries)
    return next(found, None)


def test_every_module_has_a_layer():
    entries = [entry for line in layers() for entry in line]
    assert len(entries) == len(set(entries))
    assert [name for name in [*MODULES, NATIVE] if entry_of(name, entries) is None] == []
    assert {entry for entry in entries if entry not in {*MODULES, NATIVE}} == set()


def test_imports_go_down():
    line_of = {entry: number for number, line in enumerate(layers()) for entry in line}
    upward = set()
    for name in MODULES:
        for imported, _ in imports(name):
            here, there = entry_of(name, line_of), entry_of(imported, line_of)
            if here != there and line_of[there] <= line_of[here]:
                upward.add((name, imported))
    assert upward == set()


def test_no_module_imports_itself_by_way_of_others():
    graph = {name: {imported for imported, _ in imports(name)} - {name} for name in MODULES}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules


def defined_names(tree):
    """Names and attributes that a module defines itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def private_of_others(name):
    """Private attributes of objects that are not the module's own, and private names that it imports."""
    tree = MODULES[name]
    own = {*defined_names(tree), *OF_OTHER_PACKAGES}
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    imported = {alias.asname or alias.name for node in statements for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in own:
            holder = ast.unparse(node.value)
            if holder not in {"self", "cls", "super()", *imported}:
                yield f"{holder}.{node.attr}"
    for module, taken in imports(name):
        if taken is not None and is_private(taken):
            yield f"{module}.{taken}"


def test_no_module_uses_what_is_private_to_another():
    found = {name: set(private_of_others(name)) for name in MODULES}
    assert {name: uses for name, uses in found.items() if uses} == {}


def lines_of(function):
    """Without the docstring."""
    first = function.body[1] if ast.get_docstring(function) and len(function.body) > 1 else function.body[0]
    header = function.body[0].lineno - function.lineno
    return header + function.end_lineno - first.lineno + 1


def functions(node, prefix):
    for child in ast.iter_child_nodes(node):
        name = prefix
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            name = f"{prefix}.{child.name}"
            if isinstance(child, ast.FunctionDef):
                yield name, child
        yield from functions(child, name)


def test_no_function_is_long():
    long = {
        place
        for name, tree in MODULES.items()
        for place, function in functions(tree, name)
        if lines_of(function) > MAX_LINES_OF_FUNCTION
    }
    assert long == set()


def public(node, name):
    """Functions, classes and methods, each with the class or module that has it; nothing inside a function."""
    for child in node.body:
        if isinstance(child, ast.FunctionDef | ast.ClassDef) and not child.name.startswith("_"):
            yield f"{name}.{child.name}", node, child
            if isinstance(child, ast.ClassDef):
                yield from public(child, f"{name}.{child.name}")


# By name: classes of the same name count as one.
BASES, DOCUMENTED, INTERFACES = defaultdict(set), defaultdict(set), set()
for kind in (node for tree in MODULES.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
    BASES[kind.name] |= {ast.unparse(base).split("[")[0].split(".")[-1] for base in kind.bases}
    DOCUMENTED[kind.name] |= {
        child.name for child in kind.body if isinstance(child, ast.FunctionDef) and ast.get_docstring(child)
    }
    if BASES[kind.name] & {"Protocol", "ABC"}:
        INTERFACES.add(kind.name)


def has_docstring(node, owner):
    """Whether a definition has a docstring, or is a method that a base class or an interface documents."""
    if ast.get_docstring(node) or not isinstance(owner, ast.ClassDef):
        return ast.get_docstring(node) or any(ast.unparse(by) == "overload" for by in node.decorator_list)
    names = [owner.name, *INTERFACES]
    for name in names:  # those of bases are appended
        names += BASES[name] - {*names}
    return any(node.name in DOCUMENTED[name] for name in names)


def test_everything_public_has_a_docstring():
    found = [member for module, tree in MODULES.items() for member in public(tree, module)]
    assert [name for name, owner, node in found if not has_docstring(node, owner)] == []


def test_docstrings_do_not_send_the_reader_elsewhere():
    assert [name for name, path in PATHS.items() if '"""See ' in path.read_text()] == []


FOLDERS = sorted(path for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__")


def test_nothing_private_lies_beside_the_public_modules():
    files = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    assert {f"agbm.{name}" for name in files} <= set(PUBLIC)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_folders_say_what_lives_there_and_what_they_import(folder):
    said = ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
    assert said is not None
    assert folder.name in {module.removeprefix("agbm.") for module in PUBLIC} or re.search(r"\bimports?\b", said)


def test_the_map_names_every_folder():
    text = (ROOT / "docs" / "design.md").read_text()
    (listed,) = re.findall(r"^src/agbm/\n(.+?)^```", text, re.DOTALL | re.MULTILINE)
    private = [folder.name for folder in FOLDERS if folder.name.startswith("_")]
    assert sorted(re.findall(r"^  (\w+)/", listed, re.MULTILINE)) == sorted(private)


def documented():
    """Pairs of a public module and a name that docs/api.md documents, and members with a class in front."""
    current = None
    for block in re.findall(r"```{eval-rst}\n(.+?)```", (ROOT / "docs" / "api.md").read_text(), re.DOTALL):
        for directive, target, options in re.findall(r"^\.\. (\w+):: (\S+)\n((?:   .*\n)*)", block, re.MULTILINE):
            (members,) = re.findall(r":members:((?:[^:]|\n)*)", options) or [""]
            names = members.replace(",", " ").split()
            if directive == "currentmodule":
                current = target
            elif directive == "automodule":
                yield from ((target, name) for name in names)
            else:
                name = target.removesuffix("()")
                module, _, name = name.rpartition(".") if "." in name else (current, "", name)
                yield module, name
                yield from ((module, f"{name}.{member}") for member in names)


@pytest.mark.parametrize(("module", "name"), list(documented()))
def test_what_is_documented_is_public(module, name):
    assert module in PUBLIC
    imported = importlib.import_module(module)
    first, *rest = name.split(".")
    assert first in imported.__all__
    found = getattr(imported, first)
    for part in rest:
        found = getattr(found, part)


ESTIMATORS = [agbm.AGBMClassifier, agbm.AGBMRanker, agbm.AGBMRegressor, agbm.AGBMSurvival]


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_methods_of_estimators_are_documented(kind):
    """Those of agbm; attributes are described with the parameters."""
    own = {member for base in kind.__mro__ if base.__module__.startswith("agbm.") for member in vars(base)}
    methods = {m for m in own if not m.startswith(("_", "get_", "set_")) and callable(getattr(kind, m))}
    listed = {member.partition(".")[2] for module, member in documented() if member.startswith(f"{kind.__name__}.")}
    assert methods <= listed


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_estimators_have_few_parameters(kind):
    assert len(kind().get_params(deep=False)) <= MAX_PARAMETERS


def test_public_modules_are_named_in_the_versioning_policy():
    policy = re.search(r"\*\*Public API\*\*:(.+?);", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)[1]
    assert re.findall(r"`([\w.]+)`", policy) == PUBLIC


@pytest.mark.parametrize("module", PUBLIC)
def test_public_modules_say_what_is_public(module):
    imported = importlib.import_module(module)
    assert len(set(imported.__all__)) == len(imported.__all__)
    assert all(hasattr(imported, name) for name in imported.__all__)


def native_includes():
    """What each native file includes: `tree/split.hpp` and the like."""
    roots = [ROOT / "native", PACKAGE / "_kernels"]
    files = {path.relative_to(root).as_posix(): path for root in roots for path in root.glob("*/*.*")}
    sources = {name: path.read_text() for name, path in files.items() if path.suffix in {".hpp", ".cpp", ".cu"}}
    return {name: set(re.findall(r'^#include "(.+)"', text, re.MULTILINE)) for name, text in sources.items()}


def test_native_includes_go_down():
    """In the table of native/README.md, whose folders may include those of lines above."""
    table = (ROOT / "native" / "README.md").read_text()
    allowed = {}
    for folder, named in re.findall(r"^\| `(\w+)` \|[^|]+\|(.*)\|$", table, re.MULTILINE):
        allowed[folder] = {folder}.union(*(allowed[below] for below in re.findall(r"\w+", named)))
    found = native_includes()
    assert {name.split("/")[0] for name in found} == set(allowed)
    assert {included for names in found.values() for included in names} <= set(found)
    upward = {
        (name, included)
        for name, names in found.items()
        for included in names
        if included.split("/")[0] not in allowed[name.split("/")[0]]
    }
    assert upward == set()
    TopologicalSorter(found).prepare()  # raises CycleError, which names the files
