#!/usr/bin/python3
"""The steps of ddp_bench under PyTorch's DistributedDataParallel over Gloo; prints the same fields as JSON.

    tutti-run -n 2 bench/peers/torch_ddp.py --model big --store $(mktemp -u)

Backward is real autograd through one node per parameter, in which a core is busy as long as in ddp_bench, and which
returns the parameter's gradient. Needs python3-torch. The ranks meet in a file, since tutti-run listens at MASTER_PORT
itself. Ends with status 1 if any element was wrong.
"""

import argparse
import json
import math
import os
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

PERIOD = 16
BIG_COMPUTE_MS = 150
SMALL_COMPUTE_MS = 11


def shapes(model: str) -> list[tuple[int, ...]]:
    """As bench/ddp_bench/model.cc has them."""
    if model == "small":
        return [(100, 99), (100,)] * 100
    width = 512

    def dense(outputs: int, inputs: int) -> list[tuple[int, ...]]:
        return [(outputs, inputs), (outputs,)]

    norm = [(width,), (width,)]
    layer = [*norm, *dense(3 * width, width), *dense(width, width), *norm, *dense(4 * width, width),
             *dense(width, 4 * width)]
    return [(1868, width), (1024, width), *norm, *layer * 8]


def pattern(rank: int, parameter: int, step: int) -> torch.Tensor:
    """Small whole numbers, whose sums are exact; another pattern in every parameter and step."""
    return (torch.arange(PERIOD) + 3 * rank + 5 * parameter + 7 * step).remainder(PERIOD).float()


def filled(like: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return values.repeat(math.ceil(like.numel() / PERIOD))[:like.numel()].view_as(like)


_work = torch.zeros(4096)


def compute(passes: int) -> None:
    for _ in range(passes):
        _work.mul_(0.999).add_(0.001)


def passes_per_ms() -> float:
    best, begin = 0.0, time.perf_counter()
    while (start := time.perf_counter()) - begin < 0.1:
        compute(100)
        best = max(best, 100 / ((time.perf_counter() - start) * 1e3))
    return best


class Node(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, parameter, module, index):
        ctx.parameter, ctx.module, ctx.index = parameter, module, index
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        module = ctx.module
        compute(module.passes[ctx.index])
        return gradient, filled(ctx.parameter, pattern(module.rank, ctx.index, module.step)), None, None


class Model(torch.nn.Module):
    def __init__(self, name: str, rank: int):
        super().__init__()
        self.layers = torch.nn.ParameterList(torch.nn.Parameter(torch.zeros(shape)) for shape in shapes(name))
        self.passes = [0] * len(self.layers)
        self.rank, self.step = rank, 0

    def forward(self, x):
        for index, parameter in enumerate(self.layers):
            x = Node.apply(x, parameter, self, index)
        return x

    def elements(self) -> int:
        return sum(parameter.numel() for parameter in self.layers)

    def share(self, passes: float) -> None:
        self.passes = [round(passes * parameter.numel() / self.elements()) for parameter in self.layers]


def timed(run) -> float:
    dist.barrier()
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e3


def backward_of(module) -> None:
    module(torch.zeros(1, requires_grad=True)).sum().backward()


def slowest(times: list[float]) -> list[float]:
    tensor = torch.tensor(times, dtype=torch.float64)
    dist.all_reduce(tensor, dist.ReduceOp.MAX)
    return tensor.tolist()


def calibrate(model: Model, target_ms: float) -> None:
    speed = -slowest([-passes_per_ms()])[0]
    passes = 0.0
    for _ in range(3):
        times = slowest([timed(lambda: backward_of(model)) for _ in range(5)])
        passes = max(0.0, passes + (target_ms - min(times)) * speed)
        model.share(passes)


def communicate(buckets: list[torch.Tensor]) -> None:
    for work in [dist.all_reduce(bucket, async_op=True) for bucket in buckets]:
        work.wait()
    for bucket in buckets:
        bucket.div_(dist.get_world_size())


def count_wrong(model: Model) -> int:
    ranks = dist.get_world_size()
    wrong = 0
    for index, parameter in enumerate(model.layers):
        expected = sum(pattern(rank, index, model.step) for rank in range(ranks)) / ranks
        wrong += int((parameter.grad != filled(parameter, expected)).sum())
    return wrong


def spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def measure(options: argparse.Namespace) -> dict:
    model = Model(options.model, dist.get_rank())
    calibrate(model, options.compute_ms)
    # A module of its own, so that no hooks of DDP are in the step without communication.
    replica = Model(options.model, dist.get_rank())
    replica.passes = model.passes
    ddp = DistributedDataParallel(replica, bucket_cap_mb=options.bucket_cap_mb, gradient_as_bucket_view=True)
    elements, first = model.elements(), min(model.elements(), (1 << 20) // 4)
    rest, cap = elements - first, options.bucket_cap_mb * (1 << 20) // 4
    buckets = [torch.zeros(first), *(torch.zeros(min(cap, rest - at)) for at in range(0, rest, cap))]
    results, wrong = [], 0
    for number in range(-options.warmup, options.steps):
        model.step = replica.step = number + options.warmup
        model.zero_grad(set_to_none=True)
        replica.zero_grad(set_to_none=True)
        times = [timed(lambda: backward_of(model)), timed(lambda: backward_of(ddp)),
                 timed(lambda: communicate(buckets))]
        wrong += count_wrong(replica)
        if number >= 0:
            results.append(slowest(times))
    all_wrong = torch.tensor([wrong])
    dist.all_reduce(all_wrong)
    alone, step, communication = map(list, zip(*results))
    shown = (statistics.median(step) - statistics.median(alone)) / statistics.median(communication)
    return {"library": f"torch {torch.__version__} gloo", "model": options.model, "elements": elements,
            "tensors": len(model.layers), "ranks": dist.get_world_size(), "steps": options.steps,
            "compute_ms": spread(alone), "step_ms": spread(step), "communication_ms": spread(communication),
            "exposed_ms": spread([whole - part for whole, part in zip(step, alone)]),
            "overlap_percent": min(100.0, max(0.0, 100 * (1 - shown))), "divisor": dist.get_world_size(),
            "bytes": 4 * elements, "collectives": len(buckets), "wrong_elements": int(all_wrong)}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="torch_ddp.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=("big", "small"), default="big")
    parser.add_argument("--store", required=True, help="a file that is not there yet, and that all ranks see")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=3, help="at least 2: DDP arranges its buckets after the first")
    parser.add_argument("--compute_ms", type=float, help="of a step without communication (big 150, small 11)")
    parser.add_argument("--bucket_cap_mb", type=int, default=25)
    options = parser.parse_args(arguments)
    if options.compute_ms is None:
        options.compute_ms = BIG_COMPUTE_MS if options.model == "big" else SMALL_COMPUTE_MS
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{Path(options.store).resolve()}",
                            rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    result = measure(options)
    if dist.get_rank() == 0:
        print(json.dumps(result, indent=2))
    dist.destroy_process_group()
    return 0 if result["wrong_elements"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
