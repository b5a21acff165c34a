"""Runs functions of the authors' repositories on random inputs and writes inputs and outputs as JSON.

Usage: python released.py PART FOLDER   (needs torch, and transformers for rose). compare.mjs starts it.
Files are imported as they are. If a file needs packages that its functions do not use, only the function is compiled.
"""

import ast
import importlib.util
import json
import sys
import types
from pathlib import Path

import torch
from torch import nn

torch.manual_seed(7)
torch.Tensor.cuda = lambda self, *_, **__: self


def import_file(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def compile_method(path, owner, name):
    """Compiles one method of a class, without the imports of its file."""
    tree = ast.parse(Path(path).read_text())
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == owner]
    found = [node for each in classes for node in each.body if isinstance(node, ast.FunctionDef) and node.name == name]
    if not found:
        raise SystemExit(f"{path} has no {owner}.{name}. Pass the commit that docs/fidelity.md names.")
    scope = {"torch": torch, "nn": nn, "F": nn.functional, "CrossEntropyLoss": nn.CrossEntropyLoss, "MSELoss": nn.MSELoss}
    exec(compile(ast.Module([found[-1]], []), str(path), "exec"), scope)
    return scope[name]


def to_json(value):
    if isinstance(value, torch.Tensor):
        return {"shape": list(value.shape), "values": value.detach().double().reshape(-1).tolist()}
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    return [to_json(item) for item in value] if isinstance(value, (list, tuple)) else value


def run_rose(folder):
    """Six steps of SparseAdamW with given gradients, for each variant, with and without warm-up."""
    module = import_file(folder / "robustSSANs/utils/optimization.py", "optimization")
    names = [f"layer.{i}.weight" for i in range(12)] + ["classifier.weight"]
    start = {name: torch.randn(4, 3) for name in names}
    steps = [{kind: {n: torch.randn(4, 3) * 10 ** (-3 * torch.rand(1).item() - 2) for n in names} for kind in ("ce", "kl")} for _ in range(6)]
    cases = []
    for variant, warmup in [("first", 0), ("second", 0), ("ensemble", 0), ("ensemble", 2)]:
        parameters = {name: nn.Parameter(value.clone()) for name, value in start.items()}
        optimizer = module.SparseAdamW(
            [{"params": list(parameters.values()), "params_name": names}], lr=1e-2, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.0,
            do_sparse=True, upper=60, lower=0, sparse_first=variant != "second", sparse_second=variant != "first", gamma=0.5,
            num_warmup_steps=warmup,
        )  # fmt: skip
        masks = []
        for step in steps:
            if variant != "second":
                for name, parameter in parameters.items():
                    parameter.grad = step["kl"][name].clone()
                optimizer.calculate_mask("kl")
            for name, parameter in parameters.items():
                parameter.grad = step["ce"][name].clone()
            optimizer.step()
            masks.append(optimizer.gradient_mask["param"].clone())
        cases.append({"variant": variant, "warmup": warmup, "masks": masks, "weights": {n: p.data for n, p in parameters.items()}})
    return {"names": names, "start": start, "steps": steps, "cases": cases}


def run_smart(folder):
    """The perturbation and the smoothness term on a small network that starts at the embedding output."""
    for name in ("data_utils", "data_utils.task_def", "mt_dnn"):
        sys.modules[name] = types.ModuleType(name)
    kinds = types.SimpleNamespace(Classification=1, Ranking=2, Regression=3, BERT=1, ROBERTA=2)
    sys.modules["data_utils.task_def"].TaskType = kinds
    sys.modules["data_utils.task_def"].EncoderModelType = kinds
    sys.modules["mt_dnn"].__path__ = [str(folder / "mt_dnn")]
    loss = import_file(folder / "mt_dnn/loss.py", "mt_dnn.loss")
    perturbation = import_file(folder / "mt_dnn/perturbation.py", "mt_dnn.perturbation")
    embeddings, first, second = torch.randn(5, 4, 6), torch.randn(6, 7), torch.randn(7, 3)
    start = torch.randn(5, 4, 6) * 1e-5
    perturbation.generate_noise = lambda *_, **__: start.clone().requires_grad_()
    classify = lambda embed: (embed @ first).tanh().mean(1) @ second
    seen = []

    def model(_ids, _types, _mask, _premise, _hypothesis, _task, fwd_type, embed=None):
        if fwd_type == 1:
            return embeddings
        seen.append(embed.detach())
        return classify(embed)

    clean = (classify(embeddings) + 0.1 * torch.randn(5, 3)).requires_grad_()
    teacher = perturbation.SmartPerturbation(epsilon=1e-6, step_size=1e-5, noise_var=1e-5, k=1, loss_map=[loss.SymKlCriterion()])
    value, *_ = teacher.forward(model, clean, None, None, None)
    (gradient,) = torch.autograd.grad(value, [clean])
    return {
        "embeddings": embeddings, "first": first, "second": second, "start": start, "clean": clean,
        "noise": seen[-1] - embeddings, "perturbed": classify(seen[-1]), "loss": value, "gradient": gradient,
        "inner": loss.stable_kl(classify(embeddings + start), clean.detach(), reduce=False),
    }  # fmt: skip


def run_r_drop(folder):
    """The loss of the RoBERTa model for the logits of two passes."""
    path = folder / "huggingface_transformer_src/src/transformers/models/roberta/modeling_roberta.py"
    roberta_kl = compile_method(path, "RobertaForSequenceClassification", "roberta_kl")
    logits = [torch.randn(3, 4) for _ in range(2)]
    passes = iter(logits)
    stub = types.SimpleNamespace(num_labels=4, roberta=lambda *_, **__: (next(passes),), classifier=lambda hidden: hidden)
    labels = torch.tensor([0, 3, 1])
    loss = roberta_kl(stub, *[None] * 6, labels, None, None, None)[0]
    return {"logits": logits, "labels": labels.tolist(), "alpha": 0.7, "loss": loss}


def run_mixout(folder):
    """Lee et al.'s mixture with its gradient, which shows the mask."""
    mixout = import_file(folder / "mixout/mixout.py", "mixout_file").Mixout
    current, pretrained, p = torch.randn(5, 8, requires_grad=True), torch.randn(5, 8), 0.4
    mixed = mixout.apply(current, pretrained, p, True, False)
    weights = torch.randn(5, 8)
    (gradient,) = torch.autograd.grad((mixed * weights).sum(), [current])
    return {"current": current, "pretrained": pretrained, "p": p, "mixed": mixed, "weights": weights, "gradient": gradient}


def run_rift(folder):
    """InfoNCE for given features, and the distance to the pre-trained weights."""
    path = folder / "models/AdvPLM.py"
    features = [torch.randn(6, 10, requires_grad=True), torch.randn(6, 10)]
    identity = lambda value: value
    stub = types.SimpleNamespace(
        plm=lambda **_: (None, features[0]), plm_teacher=lambda **_: (None, features[1]),
        info_nonlinear=identity, info_nonlinear_teacher=identity, infonce_temperature=0.2,
    )  # fmt: skip
    loss = compile_method(path, "AdvPLM", "embd_to_infonce")(stub, features[0], features[1], None, "normal", None)
    (gradient,) = torch.autograd.grad(loss, [features[0]])
    pair = [nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)) for _ in range(2)]
    distance = compile_method(path, "AdvPLM", "params_l2")(types.SimpleNamespace(plm=pair[0], plm_teacher=pair[1]))
    parameters = [[parameter.detach() for parameter in network.parameters()] for network in pair]
    return {
        "students": features[0], "teachers": features[1], "tau": 0.2, "loss": loss, "gradient": gradient,
        "parameters": parameters, "distance": distance,
    }  # fmt: skip


parts = {"rose": run_rose, "smart": run_smart, "r-drop": run_r_drop, "mixout": run_mixout, "rift": run_rift}
json.dump(to_json(parts[sys.argv[1]](Path(sys.argv[2]))), sys.stdout)
