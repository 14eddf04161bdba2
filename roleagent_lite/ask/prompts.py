"""Prompt files: text, named inputs, named typed outputs, checked at load.

Owns the TOML format, its checks, prompt sets and the user's own starting prompt. Leaves out the request
(adapter), the reading of replies (parse) and every use of the answers.

A prompt file `NAME.toml`:

    name = "act"                    # as the file is called
    role = "agent"                  # agent, world, reflector, judge: which model answers
    description = "one line"
    evolve = ["instructions"]       # texts that the optimiser may rewrite
    temperature = 0.0               # used where the caller gives none (default 0)
    max_tokens = 512                # limit of a reply (default: the setting limits.max_tokens)
    shown = 3                       # module choose: demonstrations in one prompt, those most like the goal

    [inputs]                        # name = what it holds
    [outputs.NAME]                  # in the order in which the model writes them
    type = "string"                 # string, integer, number, list[string], list[object]
    description = "shown to the model"
    required = true                 # a reply without it is a wrong form (default true)
    max_words = 30                  # a request to the model, and a bound where the server constrains output
    enum = "action"                 # name of a set of values that the caller supplies
    open = true                     # with enum: other values may be given too (default false)
    low = 0.0                       # number: the scale; a value outside is a wrong form
    high = 1.0
    [outputs.NAME.fields.FIELD]     # list[object]: an output each (no lists inside)

    [texts]                         # text by name; "@act.playbook" = that module's text, as it evolves
    [template]                      # system = "...", user = "...": text with holes {name}; assistant = "...":
                                    # the beginning of the reply, for models that continue one (embedded)

Holes are filled in one pass with inputs, texts and `{reply_form}` (the JSON object asked for, made from the
outputs). What is filled in is never read again, so braces in a goal or in a text are safe; braces that do
not hold a lower-case name ({"a": 1}, {0}) are no holes. A paragraph of the template whose holes are all
empty is left out.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from roleagent_lite.config import brief, parse_toml, read_bounded
from roleagent_lite.content import room
from roleagent_lite.errors import ConfigError, nearest
from roleagent_lite.types import ROLES, PromptSet, Role

TYPES = ("string", "integer", "number", "list[string]", "list[object]")
REPLY_FORM = "reply_form"
_KEYS = ("name", "role", "description", "evolve", "temperature", "max_tokens", "shown")
_SHOWN = 3  # demonstrations in one prompt, where the file does not say how many
_TURNS = ("system", "user", "assistant")
_TABLES = ("inputs", "outputs", "texts", "template")
_OUTPUT_KEYS = ("type", "description", "required", "max_words", "enum", "open", "low", "high", "fields")
_REFERENCE = re.compile(r"^@[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*$")
_HOLE = re.compile(r"\{([a-z_][a-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class Output:
    """One named value that a reply must hold. `fields` only for list[object]."""

    name: str
    type: str
    description: str = ""
    required: bool = True
    max_words: int | None = None
    enum: str | None = None
    open: bool = False
    low: float | None = None
    high: float | None = None
    fields: tuple[Output, ...] = ()


@dataclass(frozen=True, slots=True)
class PromptFile:
    """One module as its file says it. `refs`: texts that are another module's ("act.playbook")."""

    name: str
    role: Role
    description: str
    evolve: tuple[str, ...]
    temperature: float
    max_tokens: int | None
    shown: int
    inputs: Mapping[str, str]
    outputs: tuple[Output, ...]
    texts: Mapping[str, str]
    refs: Mapping[str, str]
    system: str
    user: str
    assistant: str
    path: Path


def make_prompt_set(texts: Mapping[str, str], parent: str | None = None, why: str = "seed") -> PromptSet:
    """A PromptSet whose id is the first 12 hex digits of the SHA-256 of its texts alone."""
    body = json.dumps(dict(texts), sort_keys=True, ensure_ascii=True)
    digest = hashlib.sha256(body.encode()).hexdigest()[:12]
    return PromptSet(digest, dict(texts), parent, why)


@dataclass(frozen=True, slots=True)
class Prompts:
    """All modules of one version by name."""

    name: str
    modules: Mapping[str, PromptFile] = field(default_factory=dict)

    def module(self, name: str) -> PromptFile:
        """One module. Raises ConfigError with the nearest name."""
        if name not in self.modules:
            raise ConfigError(f"prompts '{self.name}' have no module '{name}'{nearest(name, self.modules)}")
        return self.modules[name]

    @property
    def fingerprint(self) -> str:
        """The first 12 hex digits of a SHA-256 of all that the files say, wherever they lie."""
        every = {name: asdict(replace(file, path=Path())) for name, file in self.modules.items()}
        body = json.dumps(every, sort_keys=True, ensure_ascii=True, default=str)
        return hashlib.sha256(body.encode()).hexdigest()[:12]

    def seed_set(self) -> PromptSet:
        """The texts that may evolve, as the files have them."""
        texts = {f"{m.name}.{text}": m.texts[text] for m in self.modules.values() for text in m.evolve}
        return make_prompt_set(texts)

    def texts(self, module: str, prompt_set: PromptSet | None) -> dict[str, str]:
        """The texts of one module under a prompt set, references followed. Raises ConfigError."""
        out: dict[str, str] = {}
        file = self.module(module)
        for name, own in file.texts.items():
            key, value = f"{module}.{name}", own
            if name in file.refs:
                key = file.refs[name]
                other, _, text = key.partition(".")
                value = self.module(other).texts[text]
            out[name] = prompt_set.texts.get(key, value) if prompt_set is not None else value
        return out

    def override(self, path: str | Path) -> Prompts:
        """These prompts with the user's own starting texts. Raises ConfigError naming file and text.

        TOML or JSON: texts by name (`[act] instructions = "..."` or `"act.instructions" = "..."`), or a whole
        prompt file (it has `name` and `template`). Any other file: its text becomes act.instructions.
        """
        file = Path(path)
        raw = _read(file)
        if not raw.strip():
            raise ConfigError(f"prompt file {file} is empty; write the agent's instructions into it")
        if file.suffix not in (".toml", ".json"):
            texts = {"act.instructions": raw.strip()}
        else:
            body = _parse(file, raw)
            if "template" in body:
                module = _module(body, file)
                return _linked(replace(self, modules={**self.modules, module.name: module}))
            texts = _flat_texts(body, file)
        modules = dict(self.modules)
        for key, value in texts.items():
            name, _, text = key.partition(".")
            known = [f"{m.name}.{t}" for m in self.modules.values() for t in m.texts]
            if key not in known:
                raise ConfigError(f"prompt file {file}: no text '{key}'{nearest(key, known)}")
            _check_own_text(modules[name], text, value, file)
            refs = {k: v for k, v in modules[name].refs.items() if k != text}
            modules[name] = replace(modules[name], texts={**modules[name].texts, text: value}, refs=refs)
        return replace(self, modules=modules)


def load_prompts(name: str | Path = "v1") -> Prompts:
    """A shipped version by name, or a user's directory, or a single file over the shipped v1.

    Modules that a directory lacks come from v1. Raises ConfigError with file and name for unknown keys,
    unknown, missing or unused holes, and wrong values.
    """
    own = Path(name)
    if own.is_file():
        return load_prompts("v1").override(own)
    folder = own if own.is_dir() else room("prompts") / str(name)
    if not folder.is_dir():
        known = [p.name for p in room("prompts").iterdir() if p.is_dir()]
        raise ConfigError(f"no prompts '{name}': neither a file, a folder nor a shipped version"
                          f"{nearest(str(name), known)}")  # fmt: skip
    files = sorted(p for p in folder.glob("*.toml") if p.name != "profile.toml")
    if not files:
        raise ConfigError(f"the prompts folder {folder} holds no .toml file; see prompts/v1 for the format")
    modules: dict[str, PromptFile] = {}
    base = room("prompts") / "v1"
    if folder.resolve() != base.resolve():
        modules = {m.name: m for m in (_module(_parse(p, _read(p)), p) for p in sorted(base.glob("*.toml")))}
    modules |= {m.name: m for m in (_module(_parse(p, _read(p)), p) for p in files)}
    return _linked(Prompts(str(name), modules))


def holes(template: str) -> set[str]:
    """Names of the holes in a template."""
    return set(_HOLE.findall(template))


def fill(template: str, values: Mapping[str, str]) -> str:
    """The template with each hole filled once; paragraphs whose holes are all empty are left out."""
    out = []
    for paragraph in re.split(r"\n[ \t]*\n", template.strip("\n")):
        names = _HOLE.findall(paragraph)
        if names and not any(values[n].strip() for n in names):
            continue
        out.append(_HOLE.sub(lambda match: values[match[1]], paragraph))
    return "\n\n".join(out)


# --- reading and checking -----------------------------------------------------------------------------


def _read(path: Path) -> str:
    try:
        return read_bounded(path).replace("\r\n", "\n")
    except OSError as error:
        raise ConfigError(f"cannot read prompt file {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"prompt file {path} is not UTF-8 text: {error}") from None
    except ValueError as error:
        raise ConfigError(f"prompt file {path} cannot be used: {error}") from None


def _parse(path: Path, raw: str) -> dict[str, Any]:
    try:
        body = json.loads(raw) if path.suffix == ".json" else parse_toml(raw)
    except (ValueError, RecursionError) as error:
        kind = "JSON" if path.suffix == ".json" else "TOML"
        raise ConfigError(f"prompt file {path} is not valid {kind}: {error}") from None
    if not isinstance(body, dict):
        raise ConfigError(f"prompt file {path}: an object of texts by name is needed")
    return body


def _flat_texts(body: Mapping[str, Any], path: Path) -> dict[str, str]:
    flat: dict[str, Any] = {}
    for key, value in body.items():
        flat |= {f"{key}.{k}": v for k, v in value.items()} if isinstance(value, dict) else {key: value}
    wrong = [k for k, v in flat.items() if not isinstance(v, str)]
    if wrong:
        raise ConfigError(f"prompt file {path}: '{wrong[0]}' must be a text, found {brief(flat[wrong[0]])}")
    return flat


def _check_own_text(module: PromptFile, text: str, value: str, path: Path) -> None:
    """A user's text that names one of our holes expects it to be filled; texts are not, so say so."""
    ours = sorted(holes(value) & ({*module.inputs, *module.texts, REPLY_FORM} - {text}))
    if ours:
        raise ConfigError(
            f"prompt file {path}: the text '{module.name}.{text}' holds the placeholder {{{ours[0]}}}, but "
            f"texts are sent as they are; the template of '{module.name}' shows it already: leave it out"
        )


def _module(body: Mapping[str, Any], path: Path) -> PromptFile:
    def need(ok: bool, message: str) -> None:
        if not ok:
            raise ConfigError(f"prompt file {path}: {message}")

    for key in body:
        need(key in (*_KEYS, *_TABLES), f"unknown key '{key}'{nearest(key, (*_KEYS, *_TABLES))}")
    for key, kind in (("name", str), ("role", str), ("inputs", dict), ("template", dict)):
        need(isinstance(body.get(key), kind), f"needs '{key}' ({'a table' if kind is dict else 'a text'})")
    need(body["role"] in ROLES, f"role is '{body['role']}'{nearest(body['role'], ROLES)}")
    texts, template = body.get("texts", {}), body["template"]
    for key in template:
        need(key in _TURNS, f"unknown key 'template.{key}'{nearest(key, _TURNS)}")
    need(isinstance(template.get("user"), str), "needs 'template.user' (a text)")
    for table in ("inputs", "texts", "template"):
        for key, value in body.get(table, {}).items():
            need(isinstance(value, str), f"'{table}.{key}' must be a text, found {brief(value)}")
    both = set(body["inputs"]) & set(texts)
    need(not both, f"'{min(both, default='')}' is an input and a text; use two names")
    evolve = body.get("evolve", [])
    need(isinstance(evolve, list), "'evolve' must be a list of names of texts")
    for name in evolve:
        need(name in texts, f"evolve names '{name}', which is no text{nearest(str(name), texts)}")
        need(not _REFERENCE.match(texts[name]), f"evolve names '{name}', which is another module's text")
    temperature = body.get("temperature", 0.0)
    need(isinstance(temperature, int | float) and 0 <= temperature <= 2, "'temperature' must be in 0..2")
    for key in ("max_tokens", "shown"):
        given = body.get(key, 1)
        need(type(given) is int and given >= 1, f"'{key}' must be a positive whole number")
    known = {*body["inputs"], *texts, REPLY_FORM}
    used = {hole for turn in _TURNS for hole in holes(template.get(turn, ""))}
    for hole in sorted(used - known):
        need(False, f"the template has an unknown hole {{{hole}}}{nearest(hole, known)}")
    for name in sorted(known - used - {REPLY_FORM}):
        need(
            False,
            f"the template lacks the hole {{{name}}} ({'an input' if name in body['inputs'] else 'a text'})",
        )
    return PromptFile(
        name=body["name"],
        role=cast(Role, body["role"]),
        description=str(body.get("description", "")),
        evolve=tuple(evolve),
        temperature=float(temperature),
        max_tokens=body.get("max_tokens"),
        shown=body.get("shown", _SHOWN),
        inputs=body["inputs"],
        outputs=_outputs(body.get("outputs", {}), path, "outputs"),
        texts={k: v.strip("\n") for k, v in texts.items() if not _REFERENCE.match(v)}
        | {k: "" for k, v in texts.items() if _REFERENCE.match(v)},
        refs={k: v[1:] for k, v in texts.items() if _REFERENCE.match(v)},
        system=template.get("system", ""),
        user=template["user"],
        assistant=template.get("assistant", ""),
        path=path,
    )


def _outputs(table: Any, path: Path, where: str) -> tuple[Output, ...]:
    def need(ok: bool, message: str) -> None:
        if not ok:
            raise ConfigError(f"prompt file {path}: {message}")

    need(isinstance(table, dict), f"'{where}' must be a table")
    out = []
    for name, body in table.items():
        here = f"{where}.{name}"
        need(isinstance(body, dict), f"'{here}' must be a table with at least 'type'")
        for key in body:
            need(key in _OUTPUT_KEYS, f"unknown key '{here}.{key}'{nearest(key, _OUTPUT_KEYS)}")
        kind = body.get("type", "string")
        need(kind in TYPES, f"'{here}.type' is {brief(kind)}{nearest(brief(kind), TYPES)}")
        need(
            (kind == "list[object]") == ("fields" in body),
            f"'{here}': 'fields' and type list[object] go together",
        )
        fields = _outputs(body.get("fields", {}), path, f"{here}.fields")
        need(not any(f.type.startswith("list") for f in fields), f"'{here}.fields' must not hold lists")
        out.append(Output(**{**body, "name": name, "type": kind, "fields": fields}))
    return tuple(out)


def _linked(prompts: Prompts) -> Prompts:
    """Checks references between modules."""
    known = [f"{m.name}.{t}" for m in prompts.modules.values() for t in m.texts if t not in m.refs]
    for module in prompts.modules.values():
        for name, target in module.refs.items():
            if target not in known:
                raise ConfigError(
                    f"prompt file {module.path}: text '{name}' refers to '{target}'{nearest(target, known)}"
                )
    return prompts
