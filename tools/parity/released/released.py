"""Runs functions of the authors' repositories and writes inputs and outputs as JSON.

Usage: python released.py PART FOLDER < REQUEST. compare.mjs starts it, and says which packages it needs. REQUEST has
the inputs that Temper chooses, such as weights; other inputs are random.
Files are imported as they are. If a file needs packages that its functions do not use, only the function is compiled.
"""

import json
import sys
import types
import warnings
from pathlib import Path

import torch
from torch import nn

# No compiled files in this folder and in the clones.
sys.dont_write_bytecode = True
import released_attacks  # noqa: E402
import released_training  # noqa: E402
import released_words  # noqa: E402
from released_helpers import compile_method, import_file  # noqa: E402

warnings.simplefilter("ignore")
torch.manual_seed(7)
torch.Tensor.cuda = lambda self, *_, **__: self


def to_json(value):
    if isinstance(value, torch.Tensor):
        # Nine digits are exact for float32.
        return {"shape": list(value.shape), "values": [float(f"{each:.9g}") for each in value.detach().reshape(-1).tolist()]}
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    return [to_json(item) for item in value] if isinstance(value, (list, tuple)) else value


def two_passes(logits):
    """A model whose two passes have the given logits."""
    passes = iter(logits)
    return types.SimpleNamespace(num_labels=logits[0].shape[1], roberta=lambda *_, **__: (next(passes),), classifier=lambda hidden: hidden)


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
    path = folder / "robustSSANs/models/modeling_roberta.py"
    roberta_kl = compile_method(path, "RobertaForSequenceClassificationWithKL", "roberta_kl")
    logits, labels = [torch.randn(5, 3) for _ in range(2)], torch.tensor([0, 2, 1, 1, 0])
    cross_entropy, divergence, *_ = roberta_kl(two_passes(logits), *[None] * 6, labels, None, None, None)
    passes = {"logits": logits, "labels": labels.tolist(), "crossEntropy": cross_entropy, "divergence": divergence}
    return {"names": names, "start": start, "steps": steps, "cases": cases, "passes": passes}


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


def run_fairseq_r_drop(folder):
    """The loss of the fairseq criterion for the logits of two passes, summed over the batch, and its gradients."""
    path = folder / "fairseq_src/examples/roberta/roberta_rdrop_src/loss/reg_cross_entropy.py"
    forward, kl = (compile_method(path, "RegSentencePredictionCriterion", name) for name in ("forward_kl", "compute_kl_loss"))
    logits = [torch.randn(3, 4, requires_grad=True) for _ in range(2)]
    labels = torch.tensor([0, 3, 1])

    class Model:
        classification_heads, passes = {"head"}, iter(logits)

        def __call__(self, **_):
            return next(self.passes), None

        def get_targets(self, *_):
            return labels

    criterion = types.SimpleNamespace(classification_head_name="head", regression_target=False, reg_alpha=0.7)
    criterion.compute_kl_loss = lambda *both: kl(criterion, *both)
    loss, *_ = forward(criterion, Model(), {"net_input": {}, "ntokens": 0})
    return {"logits": logits, "labels": labels.tolist(), "alpha": 0.7, "loss": loss, "gradients": torch.autograd.grad(loss, logits)}


def run_r_drop(folder):
    """The loss of the RoBERTa model for the logits of two passes."""
    path = folder / "huggingface_transformer_src/src/transformers/models/roberta/modeling_roberta.py"
    roberta_kl = compile_method(path, "RobertaForSequenceClassification", "roberta_kl")
    logits = [torch.randn(3, 4) for _ in range(2)]
    labels = torch.tensor([0, 3, 1])
    loss = roberta_kl(two_passes(logits), *[None] * 6, labels, None, None, None)[0]
    return {"logits": logits, "labels": labels.tolist(), "alpha": 0.7, "loss": loss, "fairseq": run_fairseq_r_drop(folder)}


def run_mixout(folder):
    """Lee et al.'s mixture with its gradient, which shows the mask."""
    mixout = import_file(folder / "mixout/mixout.py", "mixout_file").Mixout
    current, pretrained, p = torch.randn(5, 8, requires_grad=True), torch.randn(5, 8), 0.4
    mixed = mixout.apply(current, pretrained, p, True, False)
    weights = torch.randn(5, 8)
    (gradient,) = torch.autograd.grad((mixed * weights).sum(), [current])
    return {"current": current, "pretrained": pretrained, "p": p, "mixed": mixed, "weights": weights, "gradient": gradient}


def run_adversary(path):
    """Ten steps of the convex-hull adversary on a small network that starts at the embedding output."""
    table, first, second = torch.randn(20, 6), torch.randn(6, 7), torch.randn(7, 3)
    texts, length, slots = 4, 5, 4
    substitutes = torch.randint(0, 20, (texts, length, slots))
    mask = (torch.rand(texts, length, slots) < 0.6).float()
    mask[:, :, 0] = 1
    start = torch.randn(texts, length, slots, 1) * 0.3
    init, nn.init.kaiming_normal_ = nn.init.kaiming_normal_, lambda tensor: tensor.data.copy_(start)
    network = types.SimpleNamespace(training=False, eval=lambda: None, train=lambda: None)
    stub = types.SimpleNamespace(
        plm=network, cls_to_logit=network, text_to_embd=lambda ids: table[ids],
        embd_to_logit=lambda embd, _: (embd @ first).tanh().mean(1) @ second,
    )  # fmt: skip
    info = {"num_steps": 10, "loss_func": "kl", "ascc_w_optm_lr": 1, "sparse_weight": 15, "out_type": "adv_comb_w"}
    attack = compile_method(path, "AdvPLM", "ascc_attack")
    weights = attack(stub, substitutes[:, :, 0], None, None, substitutes, mask, info)
    nn.init.kaiming_normal_ = init
    rows = texts * length
    return {
        "text": table[substitutes[:, :, 0]], "candidates": table[substitutes].reshape(rows, slots, 6), "first": first, "second": second,
        "mask": mask.reshape(rows, slots), "start": start.reshape(rows, slots), "weights": weights.reshape(rows, slots),
    }  # fmt: skip


def run_child_tuning(folder):
    """Three steps of Child-Tuning_D with a given mask."""
    module = import_file(folder / "ChildTuning/ChildTuningOptimizer.py", "child_tuning")
    start, mask = torch.randn(4, 6), (torch.rand(4, 6) < 0.3).float()
    gradients = [torch.randn(4, 6) * 1e-3 for _ in range(3)]
    parameter = nn.Parameter(start.clone())
    optimizer = module.ChildTuningAdamW([parameter], lr=1e-2, betas=(0.9, 0.999), eps=1e-6, mode="ChildTuning-D")
    optimizer.set_gradient_mask({parameter: mask})
    for gradient in gradients:
        parameter.grad = gradient.clone()
        optimizer.step()
    return {"start": start, "mask": mask, "gradients": gradients, "weights": parameter.data}


def run_rift(folder):
    """The adversary, InfoNCE for given features, and the distance to the pre-trained weights."""
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
        "parameters": parameters, "distance": distance, "adversary": run_adversary(path),
    }  # fmt: skip


def run_rift_with_models(folder, request):
    return {
        **run_rift(folder), "step": released_training.run_rift_step(folder, request["step"]),
        "roberta": released_training.run_roberta_distance(folder, request["roberta"]),
        "attacks": released_attacks.run_attacks(folder, request["attacks"]),
        "words": released_words.run_words(folder, request["words"]),
        "mixout": released_training.run_mixout_wrapper(folder, request["step"]["config"]),
        "rates": released_training.run_schedule(folder),
    }  # fmt: skip


parts = {
    "rift": run_rift_with_models, "rose": lambda folder, _: run_rose(folder), "smart": lambda folder, _: run_smart(folder),
    "r-drop": lambda folder, _: run_r_drop(folder), "freelb": released_training.run_freelb,
    "mixout": lambda folder, _: run_mixout(folder),
    "child-tuning": lambda folder, request: {**run_child_tuning(folder), **released_training.run_fisher(folder, request)},
}  # fmt: skip
output = sys.stdout
# The authors' functions print.
sys.stdout = sys.stderr
result = parts[sys.argv[1]](Path(sys.argv[2]), json.load(sys.stdin))
json.dump(to_json(result), output)
