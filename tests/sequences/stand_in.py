"""What the processor of ``carms.sequences.vllm`` sees of vLLM 0.32, which needs a GPU to run.

Names, signatures and the order of calls are those of vLLM; where vLLM is installed, the tests use
its own base classes and loader.
"""

import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace

import numpy as np
import torch

INSTALLED = find_spec("vllm") is not None
NEW, OLD = "vllm.v1.worker.gpu.sample.logits_processor", "vllm.v1.sample.logits_processor"


class LogitsProcessor(ABC):
    def __init__(self, vllm_config, req_states):
        return None

    @classmethod
    def validate_params(cls, sampling_params):
        return None

    def add_request(self, req_idx, sampling_params):
        return True

    def apply_staged_writes(self):
        return None

    @abstractmethod
    def apply(self, logits, ctx): ...


class OldLogitsProcessor(ABC):
    @classmethod
    def validate_params(cls, sampling_params):
        return None

    @abstractmethod
    def __init__(self, vllm_config, device, is_pin_memory): ...

    @abstractmethod
    def apply(self, logits): ...

    @abstractmethod
    def is_argmax_invariant(self): ...

    @abstractmethod
    def update_state(self, batch_update): ...


def install(monkeypatch, new=True):
    """Put the modules in place that ``carms.sequences.vllm`` imports; without the new interface, as
    an older vLLM has them.
    """
    if INSTALLED and new:
        return
    parts = NEW.split(".")
    names = {".".join(parts[:k]) for k in range(1, len(parts))} | {"vllm.v1.sample"}
    for name in names:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    for name, base in ((NEW, LogitsProcessor), (OLD, OldLogitsProcessor)):
        module = ModuleType(name)
        module.LogitsProcessor = base
        monkeypatch.setitem(sys.modules, name, module if new or name == OLD else None)


@dataclass
class SamplingParams:
    """The fields that the processor reads, with vLLM's defaults."""

    n: int = 1
    seed: int | None = None
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    min_tokens: int = 0
    logit_bias: dict | None = None
    allowed_token_ids: list | None = None
    bad_words: list | None = None
    structured_outputs: object = None
    extra_args: dict | None = None


class Buffer:
    """Numbers that the host writes and the device reads."""

    def __init__(self, size):
        self.np = np.zeros(size, dtype=np.int32)

    @property
    def gpu(self):
        return torch.from_numpy(self.np)


@dataclass
class Runner:
    """Requests in slots, and the order in which a model runner calls its processors."""

    processor_class: type
    listed: object
    slots: int
    prompt: int = 3
    requests: dict = field(default_factory=dict)

    def __post_init__(self):
        self.states = SimpleNamespace(
            device=torch.device("cpu"),
            max_num_reqs=self.slots,
            prompt_len=Buffer(self.slots),
            prefill_len=Buffer(self.slots),
        )
        self.processor = self.processor_class(None, self.states)

    def add(self, slot, params, tokens=()):
        self.processor_class.validate_params(params)
        self.states.prompt_len.np[slot] = self.prompt
        self.states.prefill_len.np[slot] = self.prompt + len(tokens)
        self.requests[slot] = list(tokens)
        return self.processor.add_request(slot, params)

    def step(self, slots, partial=()):
        """One token for each of these slots; those with a part of their prompt get none."""
        self.processor.apply_staged_writes()
        seen = [self.prompt + len(self.requests[slot]) for slot in slots]
        seen = [1 if slot in partial else count for slot, count in zip(slots, seen, strict=True)]
        logits = [
            self.listed.model(torch.tensor([self.requests[slot]], dtype=torch.long))[0]
            for slot in slots
        ]
        context = SimpleNamespace(
            idx_mapping_np=np.array(slots),
            idx_mapping=torch.tensor(slots),
            pos=torch.tensor(seen) - 1,
        )
        found = self.processor.apply(torch.stack(logits).detach().float(), context)
        for slot, row in zip(slots, found, strict=True):
            if slot not in partial:
                self.requests[slot].append(int(row.argmax()))
        return found
