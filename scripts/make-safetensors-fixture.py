"""Writes tests/fixtures/models/python.safetensors with the official library, to test our reader. Needs torch and safetensors."""

from pathlib import Path

import torch
from safetensors.torch import save_file

tensors = {
    "encoder.weight": torch.arange(6, dtype=torch.float32).reshape(2, 3) / 4,
    "encoder.half": torch.tensor([1.0, -2.0, 65504.0], dtype=torch.float16),
    "encoder.brain": torch.tensor([[1.0], [-0.5]], dtype=torch.bfloat16),
    "ids": torch.tensor([-1, 2**40], dtype=torch.int64),
    "mask": torch.tensor([True, False, True]),
    "scalar": torch.tensor(3.5, dtype=torch.float64),
    "empty": torch.zeros(0, 4),
    "größe \U0001f600": torch.tensor([7], dtype=torch.uint8),
}
path = Path(__file__).parent.parent / "tests" / "fixtures" / "models" / "python.safetensors"
path.parent.mkdir(parents=True, exist_ok=True)
save_file(tensors, path, metadata={"format": "pt"})
