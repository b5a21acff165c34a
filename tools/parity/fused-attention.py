"""Counts the operators that ONNX Runtime's own optimizer fuses in an exported encoder like BERT.

Usage: fused-attention.py FILE HEADS HIDDEN. Needs the Python packages onnx, onnxruntime and sympy.
"""

import collections
import sys

from onnxruntime.transformers import optimizer

path, heads, hidden = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
optimized = optimizer.optimize_model(path, model_type="bert", num_heads=heads, hidden_size=hidden, opt_level=0)
counts = collections.Counter(node.op_type for node in optimized.model.graph.node)
for name in ("Attention", "SkipLayerNormalization", "BiasGelu", "Softmax"):
    print(f"{name}: {counts[name]}")
