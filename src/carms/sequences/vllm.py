"""Correlated rollouts inside a vLLM server.

vLLM finds the processor by the entry point of this package. It acts on requests that ask for it,

    SamplingParams(n=8, seed=s, extra_args={"carms_samples": 8, "carms_seed": s, "carms_group": 0})

and leaves all others alone. The rollouts of a prompt share seed and group, and differ in their
member, ``seed - carms_seed``: vLLM itself counts it up for the ``n`` samples of a request.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from vllm.v1.sample.logits_processor import LogitsProcessor as OldLogitsProcessor

from carms.copulas import Circular
from carms.core.checks.options import probability, whole_number
from carms.sequences.addressed import Addresses
from carms.sequences.coder import Coder
from carms.sequences.counter import signed
from carms.sequences.policy import Policy
from carms.sequences.processor import keep_only

try:
    from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor

    SUPPORTED = True
except ImportError:
    # vLLM loads every installed processor: one for another version of it must not be in the way.
    class LogitsProcessor:  # type: ignore[no-redef]
        """Stands for the interface of a newer vLLM."""

    SUPPORTED = False

__all__ = ["CoupledLogitsProcessor"]

NEEDED = "correlated rollouts need vLLM 0.32 or newer, with Model Runner V2"
NAMES = {"carms_samples", "carms_seed", "carms_group", "carms_epsilon"}
# Other options that change the probabilities of tokens, with the values that do not.
NEUTRAL: Mapping[str, Any] = {
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
    "min_tokens": 0,
    "logit_bias": None,
    "allowed_token_ids": None,
    "bad_words": None,
    "structured_outputs": None,
    "thinking_token_budget": None,
}


class Request(NamedTuple):
    """What a request asks for."""

    samples: int
    seed: int
    group: int
    member: int
    epsilon: float | None
    policy: Policy

    @property
    def address(self) -> tuple[int, int, int]:
        """Seed, group and member, as ``Addresses`` has them."""
        return signed(self.seed), signed(self.group), self.member

    @staticmethod
    def of(params: Any) -> "Request | None":
        """Read the sampling parameters of vLLM; None if correlated rollouts are not asked for."""
        given = {k: v for k, v in (params.extra_args or {}).items() if k.startswith("carms_")}
        if not given:
            return None
        if given.keys() - NAMES or {"carms_samples", "carms_seed"} - given.keys():
            raise ValueError(
                "extra_args must have carms_samples and carms_seed, and may have carms_group and "
                f"carms_epsilon; got {', '.join(sorted(given))}"
            )
        samples = whole_number("carms_samples", given["carms_samples"])
        seed = whole_number("carms_seed", given["carms_seed"], most=2**63 - 1)
        group = whole_number("carms_group", given.get("carms_group", 0))
        epsilon = given.get("carms_epsilon")
        if epsilon is not None:
            epsilon = probability("carms_epsilon", epsilon)
        samples = Circular(samples).samples
        member = -1 if params.seed is None else params.seed - seed
        if params.n not in (1, samples) or not 0 <= member <= samples - params.n:
            raise ValueError(
                f"{samples} rollouts are a request with n={samples} and seed=carms_seed, or as "
                "many requests with seed=carms_seed + member; "
                f"got n={params.n}, seed={params.seed}, carms_seed={seed}"
            )
        # vLLM writes 0 or -1 for no top-k.
        top_k = None if params.top_k in (0, -1) else params.top_k
        policy = Policy(params.temperature, top_k, params.top_p)
        return Request(samples, seed, group, member, epsilon, policy)


class CoupledLogitsProcessor(LogitsProcessor, OldLogitsProcessor):  # type: ignore[misc]
    """Leaves each row the one token that its point of the circular copula chooses.

    For Model Runner V2; under the old one the processor does nothing, and refuses requests that ask
    for it. Temperature, top-k and top-p are applied here, before vLLM does, to which only one token
    is left; whatever else changes probabilities is refused, since a trainer cannot recompute it.

    The state of a request is the point and the span of its coder. It is kept by the request's
    address, not by its slot, and so survives a preemption; the oldest of requests that are in no
    slot are forgotten.
    """

    def __init__(self, vllm_config: Any, *place: Any) -> None:
        # The old runner gives a device and whether to pin memory.
        if len(place) != 1:
            return
        (self._states,) = place
        self._capacity = 8 * self._states.max_num_reqs
        device = self._states.device
        self._address = torch.zeros(3, self._capacity, dtype=torch.long, device=device)
        self._coder = torch.zeros(2, self._capacity, dtype=torch.float64, device=device)
        self._active: dict[int, tuple[int, Policy]] = {}
        self._index: OrderedDict[Request, int] = OrderedDict()
        self._pending: dict[int, Request] = {}

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Raise a ValueError for requests that ask for correlated rollouts in the wrong way."""
        try:
            if Request.of(sampling_params) is None:
                return
        except TypeError as error:
            # The only error that vLLM answers a client with.
            raise ValueError(str(error)) from None
        if not SUPPORTED:
            raise ValueError(NEEDED)
        for name, neutral in NEUTRAL.items():
            value = getattr(sampling_params, name, neutral)
            if value != neutral and value:
                raise ValueError(
                    f"correlated rollouts need the probabilities of the model: {name} must be "
                    f"{neutral}, got {value}"
                )

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        """Give the request in a slot its state: a new one, or after a preemption its own."""
        request = Request.of(sampling_params)
        self._active.pop(req_idx, None)
        if request is None:
            return False
        resumed = self._states.prefill_len.np[req_idx] > self._states.prompt_len.np[req_idx]
        index = self._index.pop(request, None)
        if resumed and index is None:
            raise RuntimeError(f"the state of a preempted request is gone: {request}")
        if index is None:
            index = self._free_index()
        if not resumed:
            self._pending[index] = request
        self._index[request] = index
        self._active[req_idx] = index, request.policy
        return True

    def _free_index(self) -> int:
        """A place for the state of a new request: an unused one, or that of the oldest request that
        is in no slot.
        """
        if len(self._index) < self._capacity:
            return len(self._index)
        in_slots = {index for index, _ in self._active.values()}
        oldest = next(each for each, index in self._index.items() if index not in in_slots)
        return self._index.pop(oldest)

    def apply_staged_writes(self) -> None:
        """Write the first state of all new requests to the device."""
        alike: dict[tuple[int, float | None], list[int]] = {}
        for index, request in self._pending.items():
            alike.setdefault((request.samples, request.epsilon), []).append(index)
        for (samples, epsilon), indices in alike.items():
            address = torch.tensor([self._pending[each].address for each in indices]).T
            coder = Coder(Addresses(*address).points(samples, epsilon=epsilon))
            self._address[:, indices] = address.to(self._address.device)
            self._coder[:, indices] = torch.stack(coder.state).to(self._coder.device)
        self._pending.clear()

    def apply(self, logits: Tensor, ctx: Any = None) -> Tensor:
        """Leave one token in the rows of requests that ask for it."""
        if ctx is None:
            return logits
        by_policy: dict[Policy, list[tuple[int, int]]] = {}
        for row, slot in enumerate(ctx.idx_mapping_np.tolist()):
            if slot in self._active:
                index, policy = self._active[slot]
                by_policy.setdefault(policy, []).append((row, index))
        if by_policy and len(ctx.idx_mapping_np) != len(logits):
            raise ValueError("correlated rollouts need a token at a time: no speculative decoding")
        for policy, pairs in by_policy.items():
            rows, index = torch.tensor(pairs, device=logits.device).T
            logits[rows] = self._draw(
                policy, logits[rows], index, ctx.idx_mapping[rows], ctx.pos[rows]
            )
        return logits

    def _draw(
        self, policy: Policy, logits: Tensor, index: Tensor, slots: Tensor, position: Tensor
    ) -> Tensor:
        seen = position + 1
        state = self._coder[:, index]
        coder = Coder.resume(*state)
        step = (seen - self._states.prompt_len.gpu[slots]).long()
        fresh = Addresses(*self._address[:, index]).fresh(step)
        token = coder.choose(policy.probabilities(logits), fresh).token
        # In the middle of a prompt vLLM samples too, and throws the token away.
        drawn = seen >= self._states.prefill_len.gpu[slots]
        self._coder[:, index] = torch.where(drawn, torch.stack(coder.state), state)
        return keep_only(token, logits)

    def is_argmax_invariant(self) -> bool:
        """Whether the old runner may skip the processor for greedy requests."""
        return True

    def update_state(self, batch_update: Any) -> None:
        """Refuse requests under the old runner."""
        for _, params, *_ in batch_update.added if batch_update else ():
            if Request.of(params) is not None:
                raise ValueError(NEEDED)
