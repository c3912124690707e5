"""Functions and annotations that load input: by words in their names, or by their calls if words are vague."""

from __future__ import annotations

import pytest
from reports import session_of
from step_captures import HOST, in_order, ran, spaces, step
from test_gpu_steps import gpu
from trace_builder import Event, line, plane

from fastprof.derive.steps.host_calls import MAYBE, NO, SAYS, classify_words, reads_data


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("load_batch", SAYS), ("DataLoader", SAYS), ("preprocess", SAYS), ("read_records", SAYS), ("data", SAYS),
        ("next_train_batch", SAYS), ("get_batch", SAYS), ("decode_images", SAYS), ("MyIterableDataset", SAYS),
        ("next", MAYBE), ("fetch", MAYBE), ("read_file", MAYBE), ("load", MAYBE),
        ("next_rate", NO), ("fetch_metrics", NO), ("read_config", NO), ("load_weights", NO), ("batch_norm", NO),
        ("train_batch", NO), ("run_on_input", NO), ("DistributedDataParallel.forward", NO), ("input_shape", NO),
        ("log_batch", NO), ("summary", NO), ("forward", NO),
    ],
)  # fmt: skip
def test_words_say_that_data_are_loaded(name: str, said: str) -> None:
    assert classify_words(name) == said


def test_calls_of_libraries_read() -> None:
    assert reads_data("$npyio.py:12 load") and reads_data("$<unknown> readinto")
    assert reads_data("<built-in method read of _io.BufferedReader object at 0x7f12>")
    assert not reads_data("$config.py:3 load") and not reads_data("$dict.py:3 read")


def causes(*said: Event) -> dict[str, int]:
    """Return idle microseconds by cause. In each of four steps of 100, a function runs for 40 before or after the
    launch of a kernel."""
    main, kernels = [], []
    for k in range(4):
        main += [step(k, 100 * k, 100), ran("cuLaunchKernel", 100 * k + 50, 4, correlation_id=k + 1)]
        main += [ran(one.name, 100 * k + (one.offset_ps or 0) // 10**6, one.duration_ps // 10**6) for one in said]
        kernels.append(ran("gemm", 100 * k + 56, 4, correlation_id=k + 1))
    session = session_of(spaces(plane(HOST, [line("python", in_order(main))]), gpu(0, kernels)))
    rows = session.report("gaps").tables["by_cause"].to_pylist()
    return {row["cause"]: row["time_ps"] // 10**6 for row in rows if row["cause"] in ("input", "python", "lock")}


def test_a_function_that_reads_before_each_step_is_input() -> None:
    assert causes(ran("$t.py:3 fetch", 5, 40), ran("$npyio.py:9 load", 10, 30))["input"] == 160
    assert "input" not in causes(ran("$t.py:3 fetch", 58, 40), ran("$math.py:9 cos", 60, 30))


def test_what_a_loop_calls_before_each_step_is_input_unless_it_is_called_otherwise() -> None:
    assert causes(ran("$t.py:3 make", 5, 40))["input"] == 160
    assert "input" not in causes(ran("$t.py:3 make", 58, 40))
    assert "input" not in causes(ran("$t.py:3 adjust_rate", 5, 40))


@pytest.mark.parametrize("name", ["next_rate", "read_config", "fetch_metrics"])
def test_what_is_read_for_something_else_is_python(name: str) -> None:
    assert "input" not in causes(ran(f"$t.py:3 {name}", 5, 40), ran("$npyio.py:9 load", 10, 30))


def test_an_iterator_gives_data_unless_its_generator_is_called_otherwise() -> None:
    assert causes(ran("$builtins next", 5, 40), ran("$t.py:9 batches", 6, 38))["input"] >= 150
    assert causes(ran("$builtins next", 5, 40), ran("$t.py:9 produce", 6, 38))["input"] >= 150
    assert "input" not in causes(ran("$builtins next", 5, 40), ran("$t.py:9 learning_rates", 6, 38))


def test_a_queue_that_is_waited_for_before_each_launch_gives_input() -> None:
    assert causes(ran("$queue.py:154 get", 5, 40))["input"] == 160
    assert "input" not in causes(ran("$queue.py:154 get", 58, 40))
