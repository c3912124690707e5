"""How often verdicts are wrong: simulated runs of steps that depend on each other, of runs that differ.

    python tests/comparison/simulate_verdicts.py [TRIALS]

Each row is a kind of steps: their number, relative spread, autocorrelation, spread between runs and share of steps that
take 1.5 times as long. Written: the share of unchanged pairs with an alarm, and of slower pairs that are found.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

from fastprof.derive.comparison.change_statistics import (
    UNCHANGED,
    compare_steps,
    compare_with_history,
    measure_error,
    take_history,
)
from fastprof.schema.columns import Int64s


@dataclass(frozen=True)
class Kind:
    steps: int
    spread: float
    dependence: float
    between_runs: float
    slow_share: float

    def run(self, random: np.random.Generator, factor: float) -> Int64s:
        """The step times of a run, in picoseconds, around 1 ms."""
        noise = random.normal(size=self.steps)
        for place in range(1, self.steps):
            noise[place] = self.dependence * noise[place - 1] + np.sqrt(1 - self.dependence**2) * noise[place]
        times = factor * np.exp(self.spread * noise + self.between_runs * random.normal())
        times[random.random(self.steps) < self.slow_share] *= 1.5
        return np.round(times * 1e9).astype(np.int64)


KINDS = [
    Kind(steps, *rest)
    for steps in (20, 50)
    for rest in ((0.02, 0, 0, 0.02), (0.02, 0.5, 0, 0.02), (0.02, 0.5, 0.01, 0.02), (0.05, 0.5, 0.01, 0.05),
                 (0.005, 0.3, 0.01, 0))
]  # fmt: skip


OLDER = 1.15
"""How much slower runs were before the history changed."""


def share_of_alarms(kind: Kind, factor: float, trials: int, history: int = 0, older: int = 0) -> float:
    """The share of pairs, or of runs with a history, that are called slower or faster. ``older``: runs before a change
    of the history."""
    random = np.random.default_rng(17)
    alarms = 0
    for _ in range(trials):
        new = kind.run(random, factor)
        if history:
            series = [("", float(kind.run(random, 1).mean())) for _ in range(history)]
            series += [("", float(kind.run(random, OLDER).mean())) for _ in range(older)]
            earlier = take_history(series)
            if earlier.reason:
                continue
            change = compare_with_history(earlier.values, float(new.mean()), measure_error(new))
        else:
            change = compare_steps(kind.run(random, 1), new)
        assert change is not None
        alarms += change.verdict != UNCHANGED
    return alarms / trials


def main(trials: int) -> None:
    sys.stdout.write(
        "steps spread dependence between_runs slow_share: unchanged, 5 %, 10 %; history: "
        "unchanged, 5 %; changed history: unchanged, 5 %\n"
    )
    for kind in KINDS:
        pairs = [share_of_alarms(kind, factor, trials) for factor in (1, 1.05, 1.1)]
        histories = [share_of_alarms(kind, factor, trials, 10) for factor in (1, 1.05)]
        changed = [share_of_alarms(kind, factor, trials, 10, 8) for factor in (1, 1.05)]
        shares = " ".join(f"{share:.2%}" for share in (*pairs, *histories, *changed))
        sys.stdout.write(f"{' '.join(map(str, vars(kind).values()))}: {shares}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5_000)
