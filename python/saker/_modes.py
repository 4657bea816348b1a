"""What modes of ours have in common."""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode


class Mode(TorchDispatchMode):
    """A mode of which PyTorch's compiler, which it would load for that, is not told."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
