"""Parts of a training step of the authors' code, on the small models whose weights compare.mjs sends."""

import types

import numpy as np
import torch
from released_helpers import compile_method, import_file, load_data, run_statements, to_tensors, tokenize_table, without_prefix
from torch import nn
from transformers import BertConfig, BertForSequenceClassification, RobertaConfig, RobertaModel

no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "attn_implementation": "eager"}


def create_classifier(request):
    config = BertConfig(**{**request["config"], **no_dropout})
    model = BertForSequenceClassification(config)
    model.load_state_dict(to_tensors(request["weights"]))
    return model


def read_gradients(model):
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def run_freelb(folder, request):
    """A step of run_glue_freelb.py for each number of ascent steps: the mean gradients."""
    ids, mask, labels = (torch.tensor(request[name]) for name in ("ids", "mask", "labels"))
    uniform = torch.tensor(request["noise"]["values"]).reshape(request["noise"]["shape"]) * 2 - 1
    results = []
    for steps in request["steps"]:
        classifier = create_classifier(request)

        class Model:
            encoder = classifier.bert

            def __call__(self, dp_masks, **inputs):
                return (classifier(**inputs).loss,), dp_masks

        original, torch.Tensor.uniform_ = torch.Tensor.uniform_, lambda self, *_: self.copy_(uniform)
        options = {"adv_steps": steps, "adv_lr": request["stepSize"], "adv_init_mag": request["initMagnitude"], "adv_max_norm": request["maxNorm"]}
        args = types.SimpleNamespace(norm_type="l2", n_gpu=1, gradient_accumulation_steps=1, fp16=False, **options)
        run_statements(
            folder / "huggingface-transformers/examples/run_glue_freelb.py", "if isinstance(model, torch.nn.DataParallel)",
            "for astep in range(args.adv_steps)", model=Model(), args=args, batch=[ids], tr_loss=0.0,
            inputs={"attention_mask": mask, "labels": labels, "token_type_ids": torch.zeros_like(ids)},
        )  # fmt: skip
        torch.Tensor.uniform_ = original
        results.append(read_gradients(classifier))
    return {"gradients": results}


def run_fisher(folder, request):
    """ChildTuningDtrainer.calculate_fisher with given batches: the Fisher information and the mask."""
    model = create_classifier(request)
    batches = [
        {"idx": None, "input_ids": torch.tensor(each["ids"]), "attention_mask": torch.tensor(each["mask"]), "labels": torch.tensor(each["labels"])}
        for each in request["batches"]
    ]
    seen = []

    def percentile(values, q):
        seen.append(values)
        return np.percentile(values, q)

    names = {"np": types.SimpleNamespace(append=np.append, percentile=percentile), "print": lambda *_: None}
    calculate = compile_method(
        folder / "ChildTuning/ChildTuningD.py", "ChildTuningDtrainer", "calculate_fisher",
        DataLoader=lambda *_, **__: batches, tqdm=lambda each: each, **names,
    )  # fmt: skip
    args = types.SimpleNamespace(
        max_grad_norm=request["maxGradNorm"], per_device_train_batch_size=None, dataloader_drop_last=False,
        dataloader_num_workers=0, dataloader_pin_memory=False,
    )  # fmt: skip
    trainer = types.SimpleNamespace(
        model=model, args=args, reserve_p=request["updateRatio"], train_dataset=None, data_collator=None, _prepare_inputs=lambda each: each,
    )  # fmt: skip
    masks = calculate(trainer)
    layers = [(name, parameter) for name, parameter in model.named_parameters() if "layer" in name]
    sizes = [parameter.numel() for _, parameter in layers]
    return {
        "fisher": dict(zip([name for name, _ in layers], torch.tensor(seen[0]).split(sizes))),
        "masks": {name: masks[parameter].float() for name, parameter in layers},
    }


def create_mlp(weights, prefix, index=...):
    """Two linear layers with the weights that compare.mjs sends, or with those of one class."""
    dense, out = ([weights[f"{prefix}.{layer}.{kind}"][index] for kind in ("weight", "bias")] for layer in ("dense", "out"))
    network = nn.Sequential(nn.Linear(*dense[0].shape[::-1]), nn.ReLU(), nn.Linear(*out[0].shape[::-1]))
    network.load_state_dict(dict(zip(("0.weight", "0.bias", "2.weight", "2.bias"), dense + out)))
    return network


def read_mlp_gradients(prefix, networks):
    """The gradients of the networks of all classes, with Temper's names."""
    names = [f"{prefix}.{layer}.{kind}" for layer in ("dense", "out") for kind in ("weight", "bias")]
    return {name: torch.stack([each.grad for each in group]) for name, group in zip(names, zip(*[each.parameters() for each in networks]))}


def create_rift_model(folder, request):
    """AdvPLM with the weights that compare.mjs sends instead of bert-base and layers of 768."""
    module = import_file(folder / "models/AdvPLM.py", "released_adv_plm")
    config = BertConfig(**{**request["config"], **no_dropout, "return_dict": False})
    model = module.AdvPLM.__new__(module.AdvPLM)
    nn.Module.__init__(model)
    model.plm, model.plm_teacher = module.BertModel_modified(config), module.BertModel_modified(config)
    for network, key in ((model.plm, "weights"), (model.plm_teacher, "teacher")):
        network.load_state_dict(without_prefix(to_tensors(request[key]), "bert."))
    for parameter in model.plm_teacher.parameters():
        parameter.requires_grad = False
    model.cls_to_logit = create_mlp(to_tensors(request["weights"]), "head")
    model.infonce_temperature = request["tau"]
    return model


def read_texts(folder, request):
    """The tokens and the substitutes that data.py gives the texts, with the tokenizer of modified_tokenizers.py."""
    data, tokenizer, tokenize_substitutes = load_data(folder, "bert", request["vocabularyPath"])
    substitutes = tokenize_table(tokenize_substitutes, request["table"])
    labels = np.eye(request["numLabels"])[request["labels"]]
    texts = data.ImdbData(None, request["texts"], labels, substitutes, request["length"], tokenizer, None)
    return [torch.stack(column) for column in zip(*[texts[i] for i in range(len(texts))])]


def run_rift_loss(folder, request, model, batch, **weights):
    """The statements of rift_train.py from the adversary to the gradients. Returns its variables, opt among them."""
    names = ("adv", "mi_clean", "mi_adv", "mi_giveny_clean", "mi_giveny_adv", "params_l2")
    opt = types.SimpleNamespace(
        ascc_train_attack_iters=10, ascc_w_optm_lr=1, ascc_train_attack_sparse_weight=15, ascc_test_attack_iters=10,
        ascc_test_attack_sparse_weight=15, weight_clean=1, weight_kl=request["beta"], infonce_sim_metric="normal",
        label_size=request["numLabels"], **{f"weight_{name}": weights.get(name, 0) for name in names},
    )  # fmt: skip
    text, y, subs, subs_mask, attention = batch
    return run_statements(
        folder / "rift_train.py", "ascc_attack_info = ", "loss.backward()", model=model, opt=opt, device="cpu",
        optimizer=torch.optim.SGD(model.parameters(), 1), text_x=text, y=y, text_subs=subs, text_subs_mask=subs_mask,
        attention_mask=attention,
    )  # fmt: skip


def shorten(gradients):
    """Gradients with six digits, which are enough to compare them, so that the file with the numbers is small."""
    return {
        name: {"shape": list(each.shape), "values": [float(f"{value:.6g}") for value in each.reshape(-1).tolist()]}
        for name, each in gradients.items()
    }


def read_encoder_gradients(model):
    return {f"bert.{name}": parameter.grad for name, parameter in model.plm.named_parameters()}


def run_information(folder, request, batch, term, projections):
    """A step with an information term: the term, and the gradients of the projections and of the encoder."""
    model = create_rift_model(folder, request)
    weights = to_tensors(projections)
    pairs = len(weights["rift.student.dense.weight"])
    students, teachers = ([create_mlp(weights, f"rift.{side}", i) for i in range(pairs)] for side in ("student", "teacher"))
    if "giveny" in term:
        model.info_nonlinear_giveny_list, model.info_nonlinear_giveny_teacher_list = nn.ModuleList(students), nn.ModuleList(teachers)
    else:
        (model.info_nonlinear,), (model.info_nonlinear_teacher,) = students, teachers
    scope = run_rift_loss(folder, request, model, batch, **{term: request["alpha"]})
    projected = {**read_mlp_gradients("rift.student", students), **read_mlp_gradients("rift.teacher", teachers)}
    return {"information": scope[f"loss_{term}"], "projections": shorten(projected), "encoder": shorten(read_encoder_gradients(model))}


def run_rift_step(folder, request):
    """The step of rift_train.py with cross-entropy and KL, with each information term, and the attack of utils.py."""
    batch = read_texts(folder, request)
    text, _, subs, subs_mask, attention = batch
    initialize, starts = nn.init.kaiming_normal_, []
    nn.init.kaiming_normal_ = lambda tensor: tensor.data.copy_(starts[-1])

    def expand(start):
        """The initial logits of each candidate, in the place of its word."""
        full = torch.zeros(*subs.shape, 1)
        for (text_index, position), row in zip(request["places"], start):
            full[text_index, position, : len(row), 0] = torch.tensor(row)
        return full

    starts.append(expand(request["start"]))
    terms = [run_information(folder, request, batch, **each) for each in request["terms"]]
    model = create_rift_model(folder, request)
    scope = run_rift_loss(folder, request, model, batch)
    head = {name: gradient[0] for name, gradient in read_mlp_gradients("head", [model.cls_to_logit]).items()}
    gradients = shorten({**read_encoder_gradients(model), **head})

    starts.append(expand(request["attackStart"]))
    seen = []
    attack = model.ascc_attack
    model.ascc_attack = lambda *inputs: seen.append(attack(*inputs)) or seen[-1]
    utils = import_file(folder / "utils.py", "released_utils")
    utils.evaluation_by_ascc(scope["opt"], "cpu", model, [(text, torch.tensor(request["predicted"]), subs, subs_mask, attention)])
    nn.init.kaiming_normal_ = initialize
    return {
        "tokens": text.tolist(), "substitutes": subs.tolist(), "substituteMask": subs_mask.tolist(), "loss": scope["loss"],
        "gradients": gradients, "terms": terms, "attacked": seen[0].tolist(),
    }  # fmt: skip


def run_roberta_distance(folder, request):
    """The distance of PTWD with a newly initialized pooler, and its gradient."""
    config = RobertaConfig(**request["config"])
    networks = [RobertaModel(config), RobertaModel(config)]
    for network, key in zip(networks, ("current", "pretrained")):
        network.load_state_dict(without_prefix(to_tensors(request[key]), "roberta."))
    distance = compile_method(folder / "models/AdvPLM.py", "AdvPLM", "params_l2")(types.SimpleNamespace(plm=networks[0], plm_teacher=networks[1]))
    distance.backward()
    return {"distance": distance, "gradients": shorten({f"roberta.{name}": each.grad for name, each in networks[0].named_parameters()})}


def run_mixout_wrapper(folder, config):
    """A pass of a linear layer in RIFT's Mixout, and the number of BERT's tensors that its call in AdvPLM.py wraps."""
    module, p = import_file(folder / "models/AdvPLM.py", "released_adv_plm"), 0.6
    linear = nn.Linear(8, 5)
    pretrained = [value.detach().clone() for value in linear.parameters()]
    layer = module.MixoutWrapper(linear, p).train()
    learned = [layer._params_learned[name] for name in layer._names]
    with torch.no_grad():
        for value in learned:
            value.add_(torch.randn_like(value))
    inputs, weights, draws = torch.randn(4, 8), torch.randn(4, 5), []
    draw, torch.rand_like = torch.rand_like, lambda value: draws.append(draw(value)) or draws[-1]
    output = layer(inputs)
    torch.rand_like = draw
    gradients = torch.autograd.grad((output * weights).sum(), learned)
    network = module.BertModel_modified(BertConfig(**config))
    numbers = {"numTensors": len(list(network.parameters())), "numWrapped": len(module.MixoutWrapper(network, p)._names)}
    return {
        "p": p, "inputs": inputs, "weights": weights, "pretrained": pretrained, "current": learned, "draws": draws, "output": output,
        "gradients": dict(zip(layer._names, gradients)), **numbers,
    }  # fmt: skip


def run_schedule(folder):
    """The learning rate of each epoch, with the scheduler that rift_train.py creates."""
    # rift_train.py imports it by this name.
    import_file(folder / "utils.py", "utils")
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], 2e-5)
    scope = run_statements(folder / "rift_train.py", "from utils import WarmupMultiStepLR", "scheduler = ", optimizer=optimizer)
    rates = []
    for _ in range(20):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scope["scheduler"].step()
    return torch.tensor(rates)
