"""Export to C: one file without dependencies, with the same results as the model, bit for bit."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from .._estimators.base import BaseAGBM
from ._formulas import FUNCTIONS, Finish, finish_of, number, written
from ._formulas import C as NOTATION
from ._program import Program, about, as_number, listed_values, program
from ._view import View, view

# Trees that are walked at the same time.
GROUP = 8
_LINE = 120

_STEP = """\
static uint32_t ${name}_step(uint32_t at, const double *row) {
  const ${name}_node *node = &${name}_nodes[at];
  const double x = row[node->what >> 3];
$sets  const uint32_t is_left = (uint32_t)(x <= node->number) | ((uint32_t)(x != x) & (node->what >> 1));
  return node->next + (~is_left & node->what & 1u);
}
"""
_STEP_BY_SET = """\
  if (node->what & 4u) {
    const uint32_t *set = &${name}_sets[(size_t)node->number];
    uint32_t member = 0;
    if (x >= 0.0 && x < 32.0 * set[0]) {
      const uint32_t category = (uint32_t)x;
      member = set[1u + category / 32u] >> (category % 32u) & 1u;
    }
    return node->next + (member ^ (~node->what >> 1 & 1u));
  }
"""
_POWER_OF_TWO = """
static double ${p}power_of_two(double n) {
  const double shifted = n + 6755399441055744.0;
  uint64_t bits;
  double power;
  memcpy(&bits, &shifted, sizeof bits);
  bits = (bits << 52) + 0x3ff0000000000000u;
  memcpy(&power, &bits, sizeof power);
  return power;
}
"""
_EXPONENT = """
static double ${p}exponent_of(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return (double)(bits >> 52) - 1023.0;
}
"""
_PREDICT = {
    "class": (
        "/* The index of the most probable class. */\nint ${name}_predict(const double row[${NAME}_N_FEATURES])",
        "  double scores[${NAME}_N_SCORES];\n  ${name}_scores(row, scores);\n",
    ),
    "proba": (
        "/* $what. */\nvoid ${name}_predict_proba(const double row[${NAME}_N_FEATURES], "
        "double out[${NAME}_N_PREDICTIONS])",
        "  double scores[${NAME}_N_SCORES];\n  ${name}_scores(row, scores);\n  ${name}_finish(scores, out);\n",
    ),
    "labels": (
        "/* For each label, 1 if it is more probable than not, otherwise 0. */\n"
        "void ${name}_predict(const double row[${NAME}_N_FEATURES], int out[${NAME}_N_PREDICTIONS])",
        "  double scores[${NAME}_N_SCORES];\n  ${name}_scores(row, scores);\n"
        "  for (int k = 0; k < ${NAME}_N_SCORES; ++k) out[k] = scores[k] > 0.0;\n",
    ),
    "value": (
        "/* $what. */\nvoid ${name}_predict(const double row[${NAME}_N_FEATURES], double out[${NAME}_N_PREDICTIONS])",
        "  double scores[${NAME}_N_SCORES];\n  ${name}_scores(row, scores);\n  ${name}_finish(scores, out);\n",
    ),
}
_SECOND = "  return scores[0] > 0.0;\n"
_LARGEST = """\
  int best = 0;
  for (int k = 1; k < ${NAME}_N_SCORES; ++k) best = scores[k] > scores[best] ? k : best;
  return best;
"""
# Lists of values: the feature, the first of its keys and the end, and the code of values that are not in the list.
_LISTS = """
typedef struct {
  uint32_t feature, first, end;
  double other;
} ${name}_list;
"""
_CODE_OF_NUMBER = (
    "/* The code of a category that is a number; NaN if it is missing, or if the feature has no categories. */\n"
    "double ${name}_code_of_number(int feature, double value)",
    """\
  for (uint32_t k = 0; k < ${n}u && value == value; ++k) {
    const ${name}_list *list = &${name}_number_lists[k];
    if ((int)list->feature != feature) continue;
    for (uint32_t low = list->first, high = list->end; low < high;) {
      const uint32_t middle = low + (high - low) / 2;
      if (${name}_number_keys[middle] == value) return ${name}_number_codes[middle];
      if (${name}_number_keys[middle] < value) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return list->other;
  }
  return NAN;
""",
)
_CODE_OF_TEXT = (
    "/* The code of a category that is text in UTF-8; NaN if it is missing (a null pointer), or if the feature has no\n"
    "   categories. */\n"
    "double ${name}_code_of_text(int feature, const char *text)",
    """\
  for (uint32_t k = 0; k < ${n}u && text; ++k) {
    const ${name}_list *list = &${name}_text_lists[k];
    if ((int)list->feature != feature) continue;
    for (uint32_t low = list->first, high = list->end; low < high;) {
      const uint32_t middle = low + (high - low) / 2;
      const int order = strcmp((const char *)&${name}_text[${name}_text_keys[middle]], text);
      if (order == 0) return ${name}_text_codes[middle];
      if (order < 0) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return list->other;
  }
  return NAN;
""",
)


def to_c(model: BaseAGBM, *, name: str = "agbm") -> str:
    """A fitted model as a C99 file without dependencies; results have the same bits as those of the model.

    A row is an array of doubles in the order of `encode`; `{name}_code_of_text` and `{name}_code_of_number` return the
    codes of categories. `{name}_predict` predicts as `predict` does (for classes: their index) and
    `{name}_predict_proba` as `predict_proba`. `{name}_scores` returns raw scores; `{name}_finish` converts these, plus
    offsets, into predictions. Use different names for several models in one program.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise ValueError(f"name={name!r} must be a C identifier: letters, digits and underscores, a letter first.")
    fitted = view(model)
    trees, finish = program(fitted), finish_of(fitted)
    texts = {
        "name": name, "NAME": name.upper(), "group": GROUP, "n_features": len(fitted.feature_names),
        "n_scores": fitted.n_outputs, "n_predictions": finish.n_predictions, "n_trees": len(trees.roots),
        "what": "Predictions" if fitted.classes is None and not fitted.several_labels else "Probabilities",
    }  # fmt: skip
    functions = [*_predictions(fitted), *_codes(fitted)]
    parts = texts | {
        "about": "\n".join(about(fitted, trees)),
        "nodes": _nodes(trees),
        "roots": _lines(trees.roots),
        "steps": _lines(np.maximum.reduceat(trees.depths, np.arange(0, len(trees.depths), GROUP))),
        "start": ", ".join(map(number, fitted.start.tolist())),
        "crosses": _filled(_crosses(fitted), texts),
        "arrays": _filled(_arrays(trees, fitted, finish), texts),
        "step": _filled(_STEP.replace("$sets", _STEP_BY_SET if len(trees.sets) else ""), texts),
        "add": _filled(_add(trees, fitted), texts),
        "functions": _functions(finish, f"{name}_", fitted.n_outputs),
        "finish": _finish_body(finish, f"{name}_", fitted.n_outputs),
        "declarations": "\n".join(_filled(f"{head};\n", texts) for head, _, _ in functions),
        "predict": "\n".join(
            _filled(f"{before}{_bare(head)} {{\n{body}}}\n", texts) for head, body, before in functions
        ),
    }
    return Template((files(__package__) / "model.c").read_text(encoding="utf-8")).substitute(parts)


def _filled(text: str, parts: dict[str, Any]) -> str:
    return Template(text).substitute(parts)


def _crosses(fitted: View) -> str:
    """What appends the crosses to a row."""
    if not fitted.crosses:
        return ""
    n = len(fitted.feature_names)
    lines = [
        f"  crossed[{place}] = row[{left}] * {number(a)} {sign} row[{right}] * {number(b)};\n"
        for place, (left, sign, right, a, b, _) in enumerate(fitted.crosses, n)
    ]
    return (
        f"  double crossed[${{NAME}}_N_FEATURES + {len(lines)}];\n"
        "  memcpy(crossed, row, ${NAME}_N_FEATURES * sizeof(double));\n" + "".join(lines) + "  row = crossed;\n"
    )


def _bare(declaration: str) -> str:
    """A declaration without its comment."""
    return re.sub(r"^/\*.*?\*/\n", "", declaration, flags=re.DOTALL)


def _lines(values: Iterable[Any]) -> str:
    """Numbers, separated by commas, in lines of limited length."""
    lines, line = [], ""
    for value in values:
        text = number(value) if isinstance(value, float) else str(value)
        if len(line) + len(text) + 1 > _LINE:
            lines.append(line)
            line = ""
        line += f"{text},"
    return "\n".join([*lines, line])


def _nodes(trees: Program) -> str:
    records = zip(trees.number.tolist(), trees.what.tolist(), trees.next.tolist(), strict=True)
    return "\n".join(f"{{{number(value)},{what}u,{after}u}}," for value, what, after in records)


def _arrays(trees: Program, fitted: View, finish: Finish) -> str:
    """Arrays that only some models have."""
    found = []
    if len(trees.sets):
        found.append(_array("uint32_t", "sets", (f"{word}u" for word in trees.sets.tolist())))
    if trees.n_values > 1:
        found.append(_array("double", "values", trees.values.ravel().tolist()))
    elif fitted.n_outputs > 1:
        found.append(_array("uint32_t", "outputs", trees.outputs.tolist()))
    found += [_array("double", name, list(values)) for name, values in (finish.numbers or {}).items()]
    return "\n".join(found)


def _array(kind: str, name: str, values: Iterable[Any]) -> str:
    return f"static const {kind} ${{name}}_{name}[] = {{\n{_lines(values)}\n}};"


def _add(trees: Program, fitted: View) -> str:
    if trees.n_values > 1:
        return (
            "      const double *values = &${name}_values[(size_t)${name}_nodes[at[k]].number];\n"
            "      for (int i = 0; i < ${NAME}_N_SCORES; ++i) scores[i] += values[i];"
        )
    output = "0" if fitted.n_outputs == 1 else "${name}_outputs[first + k]"
    return f"      scores[{output}] += ${{name}}_nodes[at[k]].number;"


def _functions(finish: Finish, prefix: str, n: int) -> str:
    needed = [FUNCTIONS[name] for name in finish.needs]
    if needed:
        needed = [_POWER_OF_TWO, *([_EXPONENT] if "log" in finish.needs else []), *needed]
    return "".join(written(text, NOTATION, prefix, n) for text in needed)


def _finish_body(finish: Finish, prefix: str, n: int) -> str:
    shares = f"  double shares[{finish.n_shares}];\n" if finish.n_shares else ""
    return shares + written(finish.body, NOTATION, prefix, n)


def _predictions(fitted: View) -> list[tuple[str, str, str]]:
    """Functions that predict: declaration, body, and what precedes the definition."""
    if fitted.several_labels:
        kinds, ends = ["proba", "labels"], ["", ""]
    elif fitted.classes is not None:
        kinds, ends = ["proba", "class"], ["", _SECOND if fitted.n_outputs == 1 else _LARGEST]
    else:
        kinds, ends = ["value"], [""]
    return [(_PREDICT[kind][0], _PREDICT[kind][1] + end, "") for kind, end in zip(kinds, ends, strict=True)]


def _codes(fitted: View) -> list[tuple[str, str, str]]:
    """Functions that look up categories, in the same form; only those that the model has categories for."""
    lists = dict(sorted(listed_values(fitted).items()))
    # Every feature with a list is in both: text that is given where categories are numbers is an unknown category.
    numbers: dict[int, list[tuple[Any, int]]] = {feature: [] for feature in lists}
    texts: dict[int, list[tuple[Any, int]]] = {feature: [] for feature in lists}
    for feature, (values, _) in lists.items():
        for code, value in enumerate(values):
            as_float = as_number(value)
            if as_float is not None:
                numbers[feature].append((as_float, code))
            elif isinstance(value, str) and "\0" not in value:  # which ends a text in C
                texts[feature].append((value.encode("utf-8", "surrogatepass"), code))
    found = []
    if any(texts.values()):
        keys = [key + b"\0" for of_feature in texts.values() for key, _ in sorted(of_feature)]
        starts = np.cumsum([0, *map(len, keys)])[:-1].tolist()
        before = _array("unsigned char", "text", list(b"".join(keys))) + "\n"
        found.append(_look_up("text", _CODE_OF_TEXT, texts, lists, "uint32_t", starts, before))
    if any(numbers.values()):
        keys_of_numbers = [key for of_feature in numbers.values() for key, _ in sorted(of_feature)]
        found.append(_look_up("number", _CODE_OF_NUMBER, numbers, lists, "double", keys_of_numbers, ""))
    return [(head, body, before if k else _LISTS + before) for k, (head, body, before) in enumerate(found)]


def _look_up(
    kind: str,
    function: tuple[str, str],
    of_features: dict[int, list[tuple[Any, int]]],
    lists: dict[int, tuple[list[Any], float]],
    key_type: str,
    keys: list[Any],
    before: str,
) -> tuple[str, str, str]:
    ends = np.cumsum([len(of_feature) for of_feature in of_features.values()]).tolist()
    entries = [
        f"{{{feature}u,{end - len(of_feature)}u,{end}u,{_or_nan(lists[feature][1])}}}"
        for (feature, of_feature), end in zip(of_features.items(), ends, strict=True)
    ]
    codes = [float(code) for of_feature in of_features.values() for _, code in sorted(of_feature)]
    before += (
        f"static const ${{name}}_list ${{name}}_{kind}_lists[] = {{\n{_lines(entries)}\n}};\n"
        f"{_array(key_type, f'{kind}_keys', keys)}\n{_array('double', f'{kind}_codes', codes)}\n"
    )
    head, body = function
    return head, body.replace("${n}", str(len(entries))), before


def _or_nan(value: float) -> str:
    return "NAN" if np.isnan(value) else number(value)
