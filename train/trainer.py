"""The training loop: makes the steps of a batch plan with AdamW; each step minimises the mean of an
objective over its rows.

Objective and plan are arguments; files are written by callbacks. The result of a step does not
depend on how it is split: sums are divided by counts over all its micro-batches and processes.
Dropout and all other draws of torch are seeded for each micro-batch from (seed, step, rank,
micro-batch), so that a step depends only on the weights and moments before it, and a run that was
killed anywhere resumes bit for bit (on the CPU; a GPU sums in an order of its own).
"""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .batches import BatchPlan, TokenRows, splitmix64
from .dp_sgd import DpSgdStep, PerSampleGradients, PoissonBatchPlan
from .model import add_neftune_noise, trainable_parameters
from .noise import SLOW_NOISE_WEIGHTS, choose_noise_device
from .objectives.objective import IGNORE_INDEX, BatchArrays, Objective
from .processes import SingleProcess, uses_bf16
from .step_log import LOG_DIGITS, RunningMean, StepLog, check_finite_loss

if TYPE_CHECKING:
    from .recipe import PrivacySettings, TrainingSettings

LANE_STEP = 4  # a lane of `splitmix64`
# the numbers of a state before the first step
NEW_RUN = {"step": 0, "tokens": 0, "seconds": 0.0, "logged": {}, "since": {}, "stopped": False}


def compute_learning_rate(settings: TrainingSettings, steps_done: int, step_count: int) -> float:
    """Return the learning rate of the step after `steps_done` steps: from 0 up over the warm-up,
    then constant, linear or cosine to 0."""
    warmup_steps = round(settings.warmup * step_count)
    if steps_done < warmup_steps:
        return settings.lr * steps_done / warmup_steps
    left = (step_count - steps_done) / max(step_count - warmup_steps, 1)
    factor = {"constant": 1.0, "linear": left, "cosine": (1 + math.cos(math.pi * (1 - left))) / 2}
    return settings.lr * factor[settings.schedule]


def build_adamw(model: Any, settings: TrainingSettings) -> Any:
    """Return AdamW over the trainable parameters, fused on a GPU; weight decay on matrices only,
    not on biases and norms."""
    import torch

    parameters = [parameter for _, parameter in trainable_parameters(model)]
    groups = [
        {
            "params": [parameter for parameter in parameters if parameter.ndim > 1],
            "weight_decay": settings.weight_decay,
        },
        {
            "params": [parameter for parameter in parameters if parameter.ndim <= 1],
            "weight_decay": 0.0,
        },
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=settings.lr,
        betas=settings.betas,
        eps=settings.epsilon,
        fused=True if parameters[0].device.type == "cuda" else None,
    )


@dataclass(frozen=True, repr=False)
class Trainer:
    """One training run: model, data, settings, and callbacks for log, checkpoints and states.
    `train` runs it."""

    model: Any  # on the device of `processes`
    wrapped_model: Any  # what `processes.wrap_model` returned for it
    optimizer: Any
    objective: Objective
    rows: TokenRows
    batch_plan: BatchPlan
    settings: TrainingSettings
    processes: SingleProcess
    validation_rows: TokenRows | None = None
    privacy: PrivacySettings | None = None  # if set, `batch_plan` is a PoissonBatchPlan
    noise_multiplier: float = 0.0  # used with `privacy` only
    on_log: Callable[[dict[str, Any]], None] = lambda entry: None
    on_checkpoint: Callable[[dict[str, Any]], bool] = lambda info: False  # true stops the run
    on_state: Callable[[dict[str, Any]], None] = lambda info: None
    # lines for people: warnings, and where the run is every `step_log.HEARTBEAT_S` seconds
    on_progress: Callable[[str], None] = lambda line: None

    def train(self, resume_state: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Train to the end, or until `on_checkpoint` returns true, and return the numbers of the
        last state.

        `resume_state` holds the numbers of a saved state to continue from.
        """
        import torch

        info = dict(resume_state or NEW_RUN)
        before_s, began = info["seconds"], time.perf_counter()
        log = StepLog(
            info,
            step_count=self.batch_plan.step_count,
            lr=self.settings.lr,
            report=self.on_progress,
        )
        checkpoint_steps = set(self.batch_plan.checkpoint_steps(self.settings.checkpoint_every))
        private_step, lengths = self._build_private_step(), self.rows.lengths
        devices = [self.processes.device] if self.processes.device.type == "cuda" else []
        # the caller's random state does not change
        with (
            add_neftune_noise(self.model, self.settings.noise_alpha),
            torch.random.fork_rng(devices),
        ):
            self.model.train()
            for step in range(info["step"], self.batch_plan.step_count):
                if info["stopped"]:
                    break
                if private_step is None:
                    sums, counts = self._forward_backward(step)
                else:
                    sums, counts = private_step.set_gradients(step)
                self._optimizer_step(step)
                done, tokens = step + 1, int(lengths[self.batch_plan.get_step_rows(step)].sum())
                log.add_step(step, sums, counts, tokens)
                is_checkpoint = done in checkpoint_steps
                if done % self.settings.log_every == 0 or done == self.batch_plan.step_count:
                    entry = self._log_step(done, log)
                    if not is_checkpoint:  # which has a line of its own
                        log.report_entry(entry)
                paused = time.perf_counter()
                if is_checkpoint:
                    info["stopped"] = self._write_checkpoint(done, log)
                every = self.settings.state_every
                if is_checkpoint or (every and done % every == 0):
                    info |= {"step": done, **log.state_dict()}
                    info["seconds"] = before_s + time.perf_counter() - began
                    self.on_state(dict(info))
                    log.exclude(time.perf_counter() - paused, has_line=is_checkpoint)
        return info

    def build_checkpoint_metadata(
        self, steps_done: int, tokens: int, train_loss: float | None
    ) -> dict[str, Any]:
        """Return the fields of checkpoint.json after `steps_done` steps, without those that only
        the caller knows."""
        return {
            "step": steps_done,
            "epoch": round(steps_done / self.batch_plan.steps_per_epoch, LOG_DIGITS),
            "tokens": tokens,
            "train_loss": None if train_loss is None else round(train_loss, LOG_DIGITS),
            "validation_loss": (
                None
                if self.validation_rows is None
                else round(self.compute_validation_loss(self.validation_rows), LOG_DIGITS)
            ),
        }

    def compute_validation_loss(self, rows: TokenRows) -> float:
        """Return the mean loss over these rows, without dropout; masked tokens are the same in each
        call."""
        import numpy as np
        import torch

        running_mean = RunningMean()
        self.model.eval()
        with torch.no_grad():
            # batches of rows of similar length, so that little is padding; each process takes every
            # n-th
            by_length = np.argsort(rows.lengths, kind="stable")
            starts = range(0, len(rows), self.settings.batch)
            rank, world_size = self.processes.rank, self.processes.world_size
            for number in range(rank, -(-len(starts) // world_size) * world_size, world_size):
                # a process without a batch left computes the first one and does not count it: the
                # weights of others may be sharded
                first = starts[number] if number < len(starts) else 0
                inputs = self.objective.collate(
                    rows.make_batch(by_length[first : first + self.settings.batch], 0),
                    training=False,
                )
                with self._autocast():
                    sums = self.objective.loss_sums(
                        self.model, self._to_device(inputs), training=False
                    )
                factor = float(number < len(starts))
                counts = {
                    name: factor * count
                    for name, count in self.objective.loss_counts(inputs).items()
                }
                running_mean.update(
                    {name: factor * float(value) for name, value in sums.items()}, counts
                )
        self.model.train()
        totals = RunningMean(
            self.processes.all_reduce_sum(running_mean.sums),
            self.processes.all_reduce_sum(running_mean.counts),
        )
        return totals.means().get("loss", 0.0)

    def _forward_backward(self, step: int) -> tuple[dict[str, Any], dict[str, float]]:
        """Compute the gradient of one optimizer step; return loss sums and counts over all
        processes, by name."""
        import torch

        micro_batches = self._local_micro_batches(step)
        local_counts = Counter[str]()
        for inputs in micro_batches:
            local_counts.update(self.objective.loss_counts(inputs))
        counts = self.processes.all_reduce_sum(dict(local_counts))
        factors = self.objective.loss_weights()
        totals: dict[str, Any] = {}
        for number, inputs in enumerate(micro_batches):
            torch.manual_seed(
                int(splitmix64(self.settings.seed, LANE_STEP, step, self.processes.rank, number))
                >> 1
            )
            is_last = number == len(micro_batches) - 1
            with (
                contextlib.nullcontext() if is_last else self.processes.no_sync(self.wrapped_model)
            ):
                with self._autocast():
                    sums = self.objective.loss_sums(
                        self.wrapped_model, self._to_device(inputs), training=True
                    )
                # DDP averages over processes; a step needs the sum
                terms = [
                    factors.get(name, 1.0)
                    * self.processes.world_size
                    / max(counts[name], 1.0)
                    * value
                    for name, value in sums.items()
                ]
                torch.autograd.backward(terms)
            for name, value in sums.items():
                totals[name] = value.detach().double() + totals.get(name, 0.0)
        if self.settings.clip:
            torch.nn.utils.clip_grad_norm_(
                [parameter for _, parameter in trainable_parameters(self.model)], self.settings.clip
            )
        return (
            totals
            if self.processes.world_size == 1
            else self.processes.all_reduce_sum(
                {name: float(value) for name, value in totals.items()}
            )
        ), counts

    def _optimizer_step(self, step: int) -> None:
        """Set the learning rate, apply the gradients, and clear them."""
        for group in self.optimizer.param_groups:
            group["lr"] = compute_learning_rate(self.settings, step, self.batch_plan.step_count)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def _build_private_step(self) -> DpSgdStep | None:
        if self.privacy is None:
            return None
        assert isinstance(self.batch_plan, PoissonBatchPlan), (
            "a private run needs a PoissonBatchPlan"
        )
        gradients = PerSampleGradients(
            self.model, self.objective, autocast=self._autocast, on_warning=self.on_progress
        )
        weight_count = sum(parameter.numel() for parameter in gradients.parameters.values())
        is_slow = (
            weight_count > SLOW_NOISE_WEIGHTS
            and choose_noise_device(self.processes.device).type == "cpu"
        )
        if self.noise_multiplier and is_slow:
            self.on_progress(
                f"warning: noise for {weight_count:,} weights is drawn on the CPU, about"
                f" {weight_count / 14e6:.0f} seconds a step; train an adapter (lora.rank = 16) or"
                " the top layers only (model.top_layers), or train on a GPU, which draws it itself"
            )
        return DpSgdStep(
            batch_plan=self.batch_plan,
            rows=self.rows,
            per_sample_gradients=gradients,
            noise_multiplier=self.noise_multiplier,
            clip_norm=self.privacy.clip,
            n_micro_batches=self.settings.accumulate,
            to_device=self._to_device,
        )

    def _local_micro_batches(self, step: int) -> list[BatchArrays]:
        """Return the model inputs of this process in a step, one entry per micro-batch."""
        epoch = self.batch_plan.epoch_of_step(step)
        shares = self.batch_plan.get_micro_batches(
            step,
            rank=self.processes.rank,
            world_size=self.processes.world_size,
            n_micro_batches=self.settings.accumulate,
        )
        if self.processes.world_size == 1:
            return [
                self.objective.collate(self.rows.make_batch(numbers, epoch), training=True)
                for numbers in shares
                if len(numbers)
            ]
        found = []
        for numbers in shares:
            # all processes need the same number of micro-batches: an empty one becomes a row
            # without labels
            inputs = self.objective.collate(
                self.rows.make_batch(
                    numbers if len(numbers) else self.batch_plan.get_step_rows(step)[:1], epoch
                ),
                training=True,
            )
            if not len(numbers):
                inputs["labels"] = inputs["labels"] * 0 + IGNORE_INDEX
            found.append(inputs)
        return found

    def _to_device(self, inputs: BatchArrays) -> dict[str, Any]:
        import torch

        tensors = {name: torch.from_numpy(array) for name, array in inputs.items()}
        if self.processes.device.type == "cuda":
            # only pinned memory is copied without waiting
            tensors = {name: tensor.pin_memory() for name, tensor in tensors.items()}
        return {
            name: tensor.to(self.processes.device, non_blocking=True)
            for name, tensor in tensors.items()
        }

    def _autocast(self) -> Any:
        return autocast_context(self.settings, self.processes.device)

    def _log_step(self, steps_done: int, log: StepLog) -> dict[str, Any]:
        """Log the means since the last logged step, with the speed; return the entry."""
        import torch

        epoch = steps_done / self.batch_plan.steps_per_epoch
        entry: dict[str, Any] = log.make_entry(steps_done, epoch, self.objective.loss_weights())
        entry["lr"] = compute_learning_rate(
            self.settings, steps_done - 1, self.batch_plan.step_count
        )
        if self.processes.device.type == "cuda":
            used = torch.cuda.max_memory_allocated(self.processes.device)
            entry["memory_gb"] = round(used / 1e9, 2)
        self.on_log(entry)
        return entry

    def _write_checkpoint(self, steps_done: int, log: StepLog) -> bool:
        """Call `on_checkpoint`; return whether any process asks to stop."""
        loss = log.begin_checkpoint()
        # losses are computed before an update and logged every few steps: check the weights, too
        check_finite_loss(loss if self._has_finite_weights() else math.nan, steps_done)
        stop = self.on_checkpoint(self.build_checkpoint_metadata(steps_done, log.tokens, loss))
        self.model.train()
        return bool(self.processes.all_reduce_sum({"stop": float(stop)})["stop"])

    def _has_finite_weights(self) -> bool:
        """Whether all trained weights are finite numbers; they are equal in all processes."""
        import torch

        return all(
            bool(torch.isfinite(parameter).all())
            for _, parameter in trainable_parameters(self.model)
        )


def autocast_context(settings: TrainingSettings, device: Any) -> Any:
    """Return the context of a forward pass: bf16 autocast if the recipe asks for it (or on auto,
    the GPU supports it), else none."""
    import torch

    if uses_bf16(settings.precision, device):
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return contextlib.nullcontext()
