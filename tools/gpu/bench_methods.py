"""ASCC and ROSE in plain PyTorch, for bench_hf.py. `compiled` is torch.compile, or the identity."""
import math
import torch
import torch.nn.functional as F

INNER_STEPS, CANDIDATES, BETA = 10, 9, 4


def kl_divergence(clean, other):
    return F.kl_div(F.log_softmax(other, -1), F.log_softmax(clean, -1), log_target=True, reduction="sum")


def prepare_ascc(model, ids, mask, labels, compiled):
    """Returns the loss of ASCC with ten inner steps (RIFT, eq. 9) as a function."""
    bert = model.bert
    rows, length = ids.shape
    candidate_ids = torch.cat([ids[..., None], torch.randint_like(ids[..., None].expand(-1, -1, CANDIDATES - 1), 1000, 30000)], -1)
    positions = torch.arange(length, device=ids.device)[None, :, None].expand(candidate_ids.shape).reshape(rows, -1)
    bias = torch.zeros(rows, 1, 1, length, device=ids.device, dtype=torch.bfloat16).masked_fill(mask[:, None, None] == 0, -1e4)

    def embed_candidates():
        embedded = bert.embeddings(input_ids=candidate_ids.reshape(rows, -1), position_ids=positions)
        return embedded.reshape(rows, length, CANDIDATES, -1)

    def encode(embedded):
        for layer in bert.encoder.layer:
            found = layer(embedded, bias)
            embedded = found[0] if isinstance(found, tuple) else found
        return model.classifier(model.dropout(bert.pooler(embedded))).float()

    def encode_mixture(free, embedded):
        weights = free.softmax(-1)
        entropy = (-(weights * weights.clamp_min(1e-12).log()).sum(-1) * mask).sum()
        return encode((weights[..., None] * embedded).sum(2)), entropy

    search, forward = compiled(encode_mixture), compiled(encode)

    def find_mixture():
        model.eval().requires_grad_(False)
        with torch.no_grad():
            embedded = embed_candidates()
            clean = forward(bert.embeddings(input_ids=ids)).clone()
        free = torch.randn(candidate_ids.shape, device=ids.device) * math.sqrt(2 / (length * CANDIDATES))
        free.requires_grad_(True)
        optimizer = torch.optim.Adam([free], lr=1, weight_decay=2e-5, fused=True)
        for _ in range(INNER_STEPS):
            attacked, entropy = search(free, embedded)
            [free.grad] = torch.autograd.grad(15 / 38400 * entropy - kl_divergence(clean, attacked), [free])
            optimizer.step()
        model.train().requires_grad_(True)
        return free.detach().softmax(-1)

    def compute_loss():
        torch.compiler.cudagraph_mark_step_begin()
        weights = find_mixture()
        both = torch.cat([bert.embeddings(input_ids=ids), (weights[..., None] * embed_candidates()).sum(2)])
        # Both passes are separate, because the bias has the rows of one batch.
        clean, attacked = forward(both[:rows]), forward(both[rows:])
        return F.cross_entropy(clean, labels) + BETA * kl_divergence(clean, attacked) / rows

    return compute_loss


def rose_update(model, optimizer, ratio=0.6):
    """ROSE with second-order risks (algorithm 1): frozen matrices follow their moment and keep their value."""
    parameters = [parameter for name, parameter in model.named_parameters() if ".layer." in name and name.endswith(".weight")]
    gradients = [parameter.grad for parameter in parameters]
    states = [optimizer.state[parameter] for parameter in parameters]
    if not states[0]:
        return optimizer.step()
    moments = [state["exp_avg"] for state in states]
    norms, averages = (torch.stack(torch._foreach_norm(tensors)) for tensors in (gradients, moments))
    risks = norms / (averages + 1e-12)
    masks = (risks <= risks.quantile(ratio)).float()
    frozen = list((1 - masks).unbind())
    before = torch._foreach_add(parameters, 0)
    for gradient, moment, weight in zip(gradients, moments, frozen):
        gradient.lerp_(moment, weight)
    optimizer.step()
    with torch.no_grad():
        for parameter, old, weight in zip(parameters, before, frozen):
            parameter.lerp_(old, weight)
