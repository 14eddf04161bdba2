"""The adapter: which layers it stands on, its number type, its reference, and how it is written.

Owns LoRA through peft. The trained parameters are always float32; `adapter.dtype` is what the saved file has.
Leaves out the base model (policy.py) and checkpoints (checkpoint.py).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from roleagent_lite.distill.recipe import Adapter
from roleagent_lite.distill.stack import load
from roleagent_lite.errors import ConfigError

TRAINED, FROZEN = "default", "reference"
BASE = "the base model (adapter off)"  # the reference of an adapter that begins at nothing
_ALL = "all-linear"


def linear_layers(model: Any) -> dict[str, int]:
    """Names of the model's linear layers and how often each occurs; without the output layer."""
    torch, transformers = load("torch"), load("transformers")
    kinds = (torch.nn.Linear, transformers.pytorch_utils.Conv1D)
    head = model.get_output_embeddings()
    found: dict[str, int] = {}
    for name, layer in model.named_modules():
        if isinstance(layer, kinds) and layer is not head:
            leaf = name.rpartition(".")[2]
            found[leaf] = found.get(leaf, 0) + 1
    return dict(sorted(found.items()))


def check_targets(targets: Sequence[str], layers: Mapping[str, int], refuse: bool) -> tuple[list[str], str]:
    """The targets that exist, and a warning or "".

    Raises ConfigError that lists the missing names and the layers there are: where none exists, and where
    some are missing and `refuse`.
    """
    if tuple(targets) == (_ALL,):
        return list(layers), ""
    there = [t for t in targets if t.rpartition(".")[2] in layers]
    missing = [t for t in targets if t not in there]
    if not missing:
        return there, ""
    known = ", ".join(f"{name} ({count})" for name, count in layers.items())
    said = (
        f"adapter.targets: this model has no layer {', '.join(missing)}; {len(there)} of {len(targets)} "
        f"names match; its linear layers are {known}"
    )
    if refuse or not there:
        raise ConfigError(said + "; name some of these, or all-linear")
    return there, said


def attach(base: Any, settings: Adapter) -> tuple[Any, str, list[str]]:
    """(the model with its adapter, the name of the reference policy, warnings).

    A new adapter changes nothing at first, and the reference is the base. One that goes on from
    `settings.start` has a frozen copy of that adapter as its reference: the base would be far away from step
    0. Raises ConfigError (targets, nothing to train, an adapter that does not fit).
    """
    peft = load("peft")
    if settings.start is not None:
        (model, reference), told = started(base, settings), []
    else:
        names, warning = check_targets(
            settings.targets, linear_layers(base), settings.missing_targets == "refuse"
        )
        config = peft.LoraConfig(
            r=settings.rank, lora_alpha=settings.alpha, lora_dropout=settings.dropout,
            target_modules=names, task_type="CAUSAL_LM", bias="none",
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # peft's advice on Conv1D's orientation, which it then follows
            model = peft.get_peft_model(base, config)
        reference, told = BASE, [warning] if warning else []
    wide(model)
    return model, reference, told


def wide(model: Any) -> None:
    """Makes the trained parameters float32. Raises ConfigError where there are none."""
    params = trained(model)
    if not params:
        raise ConfigError("nothing to train: the adapter has 0 trainable parameters; see adapter.targets")
    for parameter in params.values():
        parameter.data = parameter.data.float()


def started(
    base: Any, settings: Adapter, patched: Callable[[Any], Any] = lambda model: model
) -> tuple[Any, str]:
    """(the model that goes on from the adapter `settings.start`, the name of the reference policy).

    patched: what a back end makes of the model with its adapter, before the frozen copy joins it.
    """
    peft, folder = load("peft"), Path(str(settings.start)).expanduser()
    if not (folder / "adapter_config.json").is_file():
        raise ConfigError(f"adapter.start: {folder} holds no adapter_config.json; is it an adapter's folder?")
    try:
        model = peft.PeftModel.from_pretrained(base, str(folder), adapter_name=TRAINED, is_trainable=True)
        model = patched(model)
        freeze(model, folder)
    except (RuntimeError, ValueError, OSError) as error:
        raise ConfigError(
            f"adapter.start: {folder} does not fit this model: {str(error).splitlines()[0][:300]}"
        ) from None
    return model, f"the adapter {settings.start} as it was at the start"


def freeze(model: Any, folder: Path) -> None:
    """Puts the adapter in `folder` beside the trained one, as the reference that stays as it is."""
    model.load_adapter(str(folder), adapter_name=FROZEN, is_trainable=False)
    model.set_adapter(TRAINED)


def trained(model: Any) -> dict[str, Any]:
    """The trainable parameters by name, in a fixed order."""
    return dict(sorted((n, p) for n, p in model.named_parameters() if p.requires_grad))


def save(model: Any, folder: Path, dtype: str) -> None:
    """The trained adapter in peft's layout, in the number type `dtype`."""
    peft, safetensors, torch = load("peft"), load("safetensors.torch"), load("torch")
    folder.mkdir(parents=True, exist_ok=True)
    state = peft.get_peft_model_state_dict(model, adapter_name=TRAINED)
    kind = getattr(torch, dtype)
    plain = {k: v.detach().to("cpu", kind).contiguous() for k, v in state.items()}
    safetensors.save_file(plain, str(folder / "adapter_model.safetensors"), metadata={"format": "pt"})
    model.peft_config[TRAINED].save_pretrained(str(folder))
