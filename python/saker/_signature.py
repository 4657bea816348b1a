"""What the inputs and outputs of an exported graph are."""

from __future__ import annotations

import dataclasses
from typing import Any

from torch.utils import _pytree as pytree


@dataclasses.dataclass
class BackwardSignature:
    """Which outputs of a joint graph are gradients, and of what. Outputs and inputs go by the names of their nodes."""

    gradients_to_parameters: dict[str, str]
    gradients_to_user_inputs: dict[str, str]
    loss_output: str


@dataclasses.dataclass
class GraphSignature:
    """Inputs are parameters, buffers, what the user gives; outputs are what is written, results, gradients.

    Inputs and outputs go by the names of their nodes, parameters and buffers by those they have in the module.
    """

    parameters: list[str]
    buffers: list[str]
    user_inputs: list[str]
    user_outputs: list[str]
    inputs_to_parameters: dict[str, str]
    inputs_to_buffers: dict[str, str]
    buffers_to_mutate: dict[str, str]  # from the output that is its new contents
    parameters_to_mutate: dict[str, str]
    user_inputs_to_mutate: dict[str, str]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec
    backward_signature: BackwardSignature | None = None
    input_tokens: list[str] = dataclasses.field(default_factory=list)  # there are none
    output_tokens: list[str] = dataclasses.field(default_factory=list)


def name_of(output: Any) -> str:
    """What an output of a graph is called: the name of its node, or the constant that it is."""
    return getattr(output, "name", None) or str(output)
