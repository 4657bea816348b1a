"""Models of transformers on a GPU: eager mode, saker.compile and torch.compile, each in a process of its own.

    python bench/bench_gpu.py [--torch-compile] [--device cpu --tiny]

Printed are the first call (or training step) of a model that was just made, with PyTorch's own kernels loaded before,
and the median of later ones; caches on disk are empty. Saker's results are compared with eager mode's in its process.
In training a step is forward with loss, backward and AdamW.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import torch

KINDS = ("GPT-2", "Llama")
ENGINES = ("eager", "saker", "torch")


def language_model(kind: str, tiny: bool) -> torch.nn.Module:
    import transformers

    layers, width, heads = (2, 32, 2) if tiny else (12, 768, 12)
    if kind == "GPT-2":
        config = transformers.GPT2Config(
            n_layer=layers, n_embd=width, n_head=heads, vocab_size=8192, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
        )
        return transformers.GPT2LMHeadModel(config)
    config = transformers.LlamaConfig(
        num_hidden_layers=layers,
        hidden_size=width,
        intermediate_size=4 * width,
        num_attention_heads=heads,
        vocab_size=8192,
    )
    return transformers.LlamaForCausalLM(config)


def step_of(model: torch.nn.Module, engine: str, training: bool, ids: torch.Tensor) -> Callable[[], torch.Tensor]:
    """A function that makes one step, and gives its loss or logits."""
    if engine == "saker":
        import saker

        run = saker.compile(model)
    else:
        run = torch.compile(model) if engine == "torch" else model
    if not training:
        model.eval()

        def infer() -> torch.Tensor:
            with torch.no_grad():
                return run(input_ids=ids, use_cache=False).logits

        return infer
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def train() -> torch.Tensor:
        optimizer.zero_grad()
        loss = run(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        optimizer.step()
        return loss.detach()

    return train


def finished(step: Callable[[], torch.Tensor], device: str) -> tuple[float, torch.Tensor]:
    """Milliseconds of a step with all that it has started, and what it gave."""
    start = time.perf_counter()
    result = step()
    if device == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e3, result


def measure(kind: str, engine: str, training: bool, device: str, tiny: bool) -> dict[str, object]:
    torch.manual_seed(0)
    model = language_model(kind, tiny).to(device)
    ids = torch.randint(0, 8192, (2, 16) if tiny else (4, 256), device=device)
    reference = copy.deepcopy(model)
    plain = step_of(reference, "eager", training, ids)
    expected = [finished(plain, device)[1] for _ in range(4)]  # loads PyTorch's kernels, too
    step = step_of(model, engine, training, ids)
    first, result = finished(step, device)
    results = [result] + [finished(step, device)[1] for _ in range(3)]
    later = statistics.median(finished(step, device)[0] for _ in range(20))
    difference = max((a - b).abs().max().item() for a, b in zip(results, expected, strict=True))
    return {"first": first, "later": later, "difference": difference}


def in_process(*arguments: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as caches:
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": caches, "TRITON_CACHE_DIR": caches}
        command = [sys.executable, __file__, "--one", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description="Models on a GPU: eager mode, saker.compile, torch.compile.")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--torch-compile", action="store_true")
    parser.add_argument("--tiny", action="store_true", help="small models, to see whether this program works")
    parser.add_argument("--one", nargs=3, metavar=("KIND", "ENGINE", "JOB"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        kind, engine, job = options.one
        print(json.dumps(measure(kind, engine, job == "training", options.device, options.tiny)))
        return
    where = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    print(f"{where}, torch {torch.__version__}; milliseconds", flush=True)
    print(f"  {'':<24}{'':<10}{'first':>10}{'later':>10}{'difference from eager mode':>30}")
    common = ["--device", options.device, *(["--tiny"] if options.tiny else [])]
    for kind in KINDS:
        for job in ("inference", "training"):
            for engine in ENGINES if options.torch_compile else ENGINES[:2]:
                found = in_process(kind, engine, job, *common)
                numbers = f"{found['first']:>10.1f}{found['later']:>10.2f}{found['difference']:>30.1e}"
                print(f"  {kind + ', ' + job:<24}{engine:<10}{numbers}", flush=True)


if __name__ == "__main__":
    main()
