"""Tokenizers for training data, without torch and without transformers: a model folder's, or llama.cpp's.

Owns opening the tokenizer that a recipe's model has, and what counts as the token that ends a turn. Leaves
out samples and masks (tokens.py) and the rules for templates (chat.py). The only door to `tokenizers`.

A folder in Hugging Face's layout is read directly (`tokenizer.json`, `tokenizer_config.json`, a chat
template); a GGUF file through llama.cpp, which the core installs; an object of transformers' by `wrap`. All
give text back exactly where their vocabulary can.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from roleagent_lite.distill.chat import Refused, Render, left_open, template_render
from roleagent_lite.errors import ConfigError, MissingExtra, RoleAgentError
from roleagent_lite.types import Listener, Message

_SENTINEL = "qzx-reply-qzx"


class Tokenizer(Protocol):
    """`end_id`: the token that ends a turn; `pad_id`: what fills up a batch (may equal it: the mask tells).

    render: messages -> prompt text ready for the reply (raises chat.Refused). prompt_ids: ids of such a text,
    control tokens read as such. encode: ids of a reply as plain text, control tokens spelt out. decode: text
    of ids, control tokens shown.
    """

    name: str
    end_id: int
    pad_id: int

    def render(self, messages: Sequence[Message]) -> str: ...
    def prompt_ids(self, text: str) -> list[int]: ...
    def encode(self, text: str) -> list[int]: ...
    def decode(self, ids: Sequence[int]) -> str: ...


def open_tokenizer(model: str, listener: Listener | None = None) -> Tokenizer:
    """The tokenizer of a recipe's model: `embedded`, `embedded:FILE.gguf`, FILE.gguf, a folder, or
    OWNER/NAME.

    Raises ConfigError (no such model, no chat template), MissingExtra where only transformers can read it,
    RoleAgentError where it cannot be fetched.
    """
    path = Path(model).expanduser()
    if model.partition(":")[0] == "embedded":
        return _of_gguf(model, listener)
    if path.suffix == ".gguf":
        return _of_gguf(f"embedded:{path}", listener)
    if path.is_dir():
        return _of_folder(path)
    if model.count("/") == 1 and not path.exists() and not model.startswith((".", "/", "~")):
        return _of_folder(_from_hub(model), model)
    raise ConfigError(
        f"model '{model}' is neither a folder, a GGUF file, OWNER/NAME on a model hub, "
        "nor embedded[:FILE.gguf]"
    )


class FileTokenizer:
    """A `tokenizer.json` with a chat template. `special`: the named control tokens of its config."""

    def __init__(self, name: str, inner: Any, template: str, special: Mapping[str, str]) -> None:
        self.name = name
        self._inner = inner
        self.render: Render = template_render(template, special)
        self._special = frozenset(inner.get_added_tokens_decoder())
        eos = inner.token_to_id(special["eos_token"]) if special.get("eos_token") else None
        self.end_id = _end_of_turn(self, self._special.__contains__, eos)
        pad = inner.token_to_id(special["pad_token"]) if special.get("pad_token") else None
        self.pad_id = self.end_id if pad is None else pad

    def prompt_ids(self, text: str) -> list[int]:
        self._inner.encode_special_tokens = False
        return list(self._inner.encode(text, add_special_tokens=False).ids)

    def encode(self, text: str) -> list[int]:
        self._inner.encode_special_tokens = True
        return list(self._inner.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._inner.decode(list(ids), skip_special_tokens=False))


class GgufTokenizer:
    """llama.cpp's tokenizer of a GGUF file: the one that played where the model was embedded."""

    def __init__(self, name: str, engine: Any) -> None:
        self.name = name
        self._engine = engine
        self.end_id = _end_of_turn(self, self._is_special, None)
        self.pad_id = self.end_id

    def render(self, messages: Sequence[Message]) -> str:
        try:
            return str(self._engine.render(messages))
        except RoleAgentError as error:
            raise Refused(str(error)) from None

    def prompt_ids(self, text: str) -> list[int]:
        return list(self._engine.tokenize_prompt(text))

    def encode(self, text: str) -> list[int]:
        return list(self._engine.tokenize(text))

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._engine.detokenize(ids))

    def _is_special(self, token: int) -> bool:
        return self.encode(self.decode([token])) != [token]


class HubTokenizer:
    """A tokenizer object of transformers', as it is."""

    def __init__(self, inner: Any) -> None:
        if not inner.chat_template:
            raise ConfigError(_no_template(inner.name_or_path))
        self.name = str(inner.name_or_path)
        self._inner = inner
        special = set(inner.added_tokens_decoder)  # `all_special_ids` has only the named ones
        self.end_id = _end_of_turn(self, special.__contains__, inner.eos_token_id)
        self.pad_id = self.end_id if inner.pad_token_id is None else int(inner.pad_token_id)

    def render(self, messages: Sequence[Message]) -> str:
        begun = bool(messages) and messages[-1].role == "assistant"
        plain = [{"role": m.role, "content": m.content} for m in messages]
        try:
            text = self._inner.apply_chat_template(plain, tokenize=False, add_generation_prompt=not begun)
        except Exception as error:  # border: a template may raise anything  # noqa: BLE001
            raise Refused(str(error)) from None
        return left_open(text, messages[-1].content) if begun else str(text)

    def prompt_ids(self, text: str) -> list[int]:
        return list(self._inner.encode(text, add_special_tokens=False))

    def encode(self, text: str) -> list[int]:
        return list(self._inner.encode(text, add_special_tokens=False, split_special_tokens=True))

    def decode(self, ids: Sequence[int]) -> str:
        shown = self._inner.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return str(shown)


def wrap(tokenizer: Any) -> Tokenizer:
    """A tokenizer of transformers' for use here. Raises ConfigError where it has no chat template."""
    return HubTokenizer(tokenizer)


def _end_of_turn(tokenizer: Any, is_special: Any, eos: int | None) -> int:
    """The control token that the template puts behind a reply, else the end of text.

    Many models have both, and only the first is what the model has to write to stop. Raises ConfigError where
    there is neither.
    """
    chat = (Message("user", "a"), Message("assistant", _SENTINEL), Message("user", "b"))
    try:
        behind = tokenizer.render(chat).partition(_SENTINEL)[2].lstrip()
        ids = tokenizer.prompt_ids(behind)
        if ids and is_special(ids[0]):
            return int(ids[0])
    except Refused:
        pass
    if eos is None:
        raise ConfigError(
            f"model {tokenizer.name}: neither its chat template nor its tokenizer has a token that ends a "
            "turn, so a model trained on it would never stop"
        )
    return int(eos)


def _of_gguf(spec: str, listener: Listener | None) -> Tokenizer:
    from roleagent_lite.lm.embedded import EmbeddedModel

    model = EmbeddedModel.open(spec, listener)
    return GgufTokenizer(model.name, model.engine)


def _of_folder(path: Path, name: str = "") -> Tokenizer:
    file = path / "tokenizer.json"
    if not file.is_file():
        if any((path / other).is_file() for other in ("tokenizer.model", "vocab.json", "vocab.txt")):
            return _by_transformers(path)
        raise ConfigError(f"{path} holds no tokenizer.json; is it a model's folder in Hugging Face's layout?")
    from tokenizers import Tokenizer as Inner

    config = _json(path / "tokenizer_config.json")
    template = _template(path, config)
    if not template:
        raise ConfigError(_no_template(path))
    special = {
        key: str(value["content"] if isinstance(value, dict) else value)
        for key in ("bos_token", "eos_token", "pad_token", "unk_token")
        if (value := config.get(key))
    }
    return FileTokenizer(name or str(path), Inner.from_file(str(file)), template, special)


def _no_template(path: object) -> str:
    return (
        f"model {path} has no chat template, so it is no instruct model; put chat_template.jinja into its "
        "folder, or take the instruct version"
    )


def _template(path: Path, config: Mapping[str, Any]) -> str:
    own = path / "chat_template.jinja"
    if own.is_file():
        return own.read_text(encoding="utf-8")
    found = config.get("chat_template") or ""
    if isinstance(found, list):  # several by name; the default one is for plain chats
        found = {one["name"]: one["template"] for one in found}.get("default", "")
    return str(found)


def _json(path: Path) -> dict[str, Any]:
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from None
    return loaded if isinstance(loaded, dict) else {}


def _by_transformers(path: Path) -> Tokenizer:
    try:
        from transformers import AutoTokenizer
    except Exception as error:  # border: a broken installation may raise anything
        raise MissingExtra(
            f"the tokenizer in {path} has no tokenizer.json and needs transformers, which does not load here "
            f"({type(error).__name__}: {error}): pip install 'roleagent-lite[distill]'"
        ) from error
    return HubTokenizer(AutoTokenizer.from_pretrained(str(path)))


def _from_hub(name: str) -> Path:
    """The folder with the tokenizer files of a model on the hub, because the recipe names it."""
    import huggingface_hub

    from roleagent_lite.lm.wheels import cache_dir
    from roleagent_lite.redact import scrub

    patterns = ["tokenizer*", "chat_template*", "special_tokens_map.json", "vocab.*", "merges.txt"]
    try:
        found = huggingface_hub.snapshot_download(
            name, allow_patterns=patterns, cache_dir=cache_dir() / "hub"
        )
    except (OSError, ValueError) as error:  # the hub's own errors are children of these
        reason = (
            scrub(str(error).strip().splitlines()[0][:300]) if str(error).strip() else type(error).__name__
        )
        raise RoleAgentError(
            f"cannot fetch the tokenizer of {name} from the model hub: {reason}; check the name and the "
            "network, or give a folder"
        ) from None
    return Path(found)
