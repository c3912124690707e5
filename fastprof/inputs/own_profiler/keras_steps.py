"""A callback of Keras that counts steps. Keras is the program's: 3 with any backend, or 2."""

from __future__ import annotations

import sys
from typing import Any, Protocol

from fastprof.errors import UsageError


class Steps(Protocol):
    """Counts steps."""

    def count(self, *, is_marked: bool) -> None: ...

    def end_step(self) -> None: ...


def callback(steps: Steps) -> Any:
    """Raises UsageError: the program has not imported Keras."""
    keras = sys.modules.get("keras")
    if keras is None and (tensorflow := sys.modules.get("tensorflow")) is not None:
        keras = getattr(tensorflow, "keras", None)
    if keras is None:
        raise UsageError("the program has not imported keras; import it before its callback is made")
    is_marked = not str(getattr(keras, "__version__", "3")).startswith("2.")  # Keras 2 marks its steps itself

    class Batches(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
        """A step lasts until the next batch begins, so that waiting for input belongs to steps."""

        def on_train_batch_begin(self, batch: int, logs: object = None) -> None:  # noqa: ARG002
            steps.count(is_marked=is_marked)

        def on_test_begin(self, logs: object = None) -> None:  # noqa: ARG002
            steps.end_step()

        def on_epoch_end(self, epoch: int, logs: object = None) -> None:  # noqa: ARG002
            steps.end_step()

    return Batches()
