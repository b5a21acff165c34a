"""Loads functions of the authors' files as they are."""

import ast
import importlib.util
import sys
import types
from pathlib import Path

import numpy as np
import torch
from torch import nn


def import_file(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def replace_modules(**modules):
    """Replaces packages that a file imports but whose functions are not compared."""
    for name, content in modules.items():
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(content)


def report_missing(path, what):
    raise SystemExit(f"{path} has no {what}. Pass the commit that docs/explanation/fidelity.md names.")


def compile_method(path, owner, name, **more):
    """Compiles one method of a class, without the imports of its file."""
    tree = ast.parse(Path(path).read_text())
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == owner]
    found = [node for each in classes for node in each.body if isinstance(node, ast.FunctionDef) and node.name == name]
    if not found:
        report_missing(path, f"{owner}.{name}")
    scope = {"torch": torch, "np": np, "nn": nn, "F": nn.functional, "CrossEntropyLoss": nn.CrossEntropyLoss, "MSELoss": nn.MSELoss, **more}
    exec(compile(ast.Module([found[-1]], []), str(path), "exec"), scope)
    return scope[name]


def run_statements(path, first, last, **scope):
    """Runs the statements of a function from one that starts with `first` to one that starts with `last`."""
    for node in ast.walk(ast.parse(Path(path).read_text())):
        body = getattr(node, "body", None)
        texts = [ast.unparse(each) for each in body] if isinstance(body, list) else []
        start = next((i for i, text in enumerate(texts) if text.startswith(first)), None)
        end = next((i for i, text in enumerate(texts) if text.startswith(last)), None)
        if start is not None and end is not None and start < end:
            scope.update(torch=torch, nn=nn, F=nn.functional)
            exec(compile(ast.Module(body[start : end + 1], []), str(path), "exec"), scope)
            return scope
    return report_missing(path, f"statements from {first} to {last}")


def to_tensors(weights):
    """The tensors that compare.mjs has sent."""
    return {name: torch.tensor(each["values"]).reshape(each["shape"]) for name, each in weights.items()}


def without_prefix(weights, prefix):
    return {name[len(prefix) :]: value for name, value in weights.items() if name.startswith(prefix)}


def load_data(folder, kind, *paths):
    """data.py, and the two tokenizers of modified_tokenizers.py with these files instead of downloaded ones."""
    tokenizers = import_file(folder / "modified_tokenizers.py", "modified_tokenizers")
    read = classmethod(lambda each, _name, **options: each(*paths, **options))
    tokenizers.ModifiedBertTokenizer.from_pretrained = tokenizers.ModifiedRobertaTokenizer.from_pretrained = read
    return import_file(folder / "data.py", "data"), *tokenizers.get_tokenizers(kind)


def tokenize_table(tokenize_substitutes, table):
    """The tokens of all substitutes, as get_data_iters in data.py creates them."""
    return {word: [ids[0] for ids in tokenize_substitutes(words)["input_ids"]] for word, words in table.items()}
