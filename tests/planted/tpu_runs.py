"""Runs of JAX and TensorFlow on TPUs with one planted cause each, and a healthy one."""

from __future__ import annotations

from gpu_machine import Thread, Written
from hlo_builder import Op, shape, tuple_of
from tpu_machine import TF_CALLS, US, Compiled, Pod, Run, array, dense
from trace_builder import int_field

ROWS, WIDTH = 4096, 8192


def hidden_all_reduce() -> Written:
    """Healthy: products at 95 % of the peak, and a sum over four chips that runs beside them."""
    compiled = dense(3)
    first = compiled.ops[-1]
    begun = compiled.all_reduce(first, 900 * US, 4, ROWS, WIDTH, opcode="all-reduce-start")
    x, weight = first, compiled.ops[0]
    for _ in range(3):
        x = compiled.product(x, weight, ROWS, WIDTH, WIDTH)
    done = Op("all-reduce-done", "all-reduce-done", begun.shape, [begun.name])
    compiled.add(done, "all-reduce-done", 0, ends=begun.name)
    pod = Pod(compiled)
    return pod.captured(0, pod.run())


def exposed_all_reduce() -> Written:
    """The sum over four chips comes after all compute, and takes a quarter of the step."""
    compiled, took = dense(6), 1300 * US
    compiled.all_reduce(compiled.ops[-1], took, 4, ROWS, WIDTH)
    pod = Pod(compiled)
    run = pod.run()
    return pod.captured(took * pod.steps, run)


def slow_chip() -> Written:
    """One chip of four takes a third longer for all compute; the others wait in a short sum over chips."""
    return _uneven(Pod(_summed()), (3,))


def slow_host() -> Written:
    """Both chips of the second of two hosts take a third longer; the chips of the first wait in a short sum."""
    return _uneven(Pod(_summed(), hosts=2), (2, 3))


def _summed() -> Compiled:
    compiled = dense(6)
    compiled.all_reduce(compiled.ops[-1], 60 * US, 4, ROWS, WIDTH)
    return compiled


def _uneven(pod: Pod, slow: tuple[int, ...]) -> Written:
    def takes(chip: int, run: Run) -> int:
        return run.took * 4 // 3 if chip in slow and run.category != "all-reduce" else run.took

    run = pod.run(takes)
    lost = sum(one.took * 4 // 3 - one.took for one in pod.compiled.runs if one.category != "all-reduce")
    return pod.captured(lost * pod.steps, run)


def late_infeed() -> Written:
    """Each step starts with an infeed that waits for the host's tf.data."""
    made = Compiled()
    weight, took = made.parameter("bf16", WIDTH, WIDTH), 2600 * US
    fed = Op("infeed.1", "infeed", tuple_of(array("bf16", ROWS, WIDTH), shape("s32", 8)))
    made.add(fed, "infeed", took, bytes=2 * ROWS * WIDTH)
    x = Op("get-tuple-element.2", "get-tuple-element", array("bf16", ROWS, WIDTH), [fed.name])
    made.ops.append(x)
    for _ in range(5):
        x = made.product(x, weight, ROWS, WIDTH, WIDTH)
    pod = Pod(made, chips=2, calls=TF_CALLS)
    run = pod.run()
    return pod.captured(took * pod.steps, run, None, _feeding(pod))


def _feeding(pod: Pod) -> Thread:
    """The host thread that makes batches and enqueues them: it is at work all the time."""
    thread = Thread("tf_Compute/8800412", 8_800_412)
    for step, module in enumerate(pod.chips[0].steps):
        ready = (module.offset_ps or 0) + 2590 * US
        with (
            thread.within("IteratorGetNextOp::DoCompute", id=900 + step, iter_num=0),
            thread.within("Iterator::Root", id=41),
            thread.within("Iterator::Root::BatchV2", id=42, parent_id=41),
        ):
            thread.wait("Iterator::Root::BatchV2::Map", ready - 30 * US, id=43, parent_id=42)
        thread.run("InfeedQueue/enqueue/0:InfeedEnqueueTuple", 40 * US)
    return thread


def ragged_channels() -> Written:
    """Convolutions of 129 channels: tiles of 128 leave nearly half of each side empty, three quarters of the work."""
    made, lost, channels = Compiled(), 0, 129
    weight, x = made.parameter("bf16", WIDTH, WIDTH), made.parameter("bf16", ROWS, WIDTH)
    for _ in range(2):
        x = made.product(x, weight, ROWS, WIDTH, WIDTH)
    image, kernel = made.parameter("bf16", 64, 56, 56, channels), made.parameter("bf16", 5, 5, channels, channels)
    for _ in range(6):
        image = made.convolution(image, kernel, 64, 56, channels, 5)
        took = made.runs[-1].took
        lost += took - took * channels**2 // 256**2
    pod = Pod(made, chips=2)
    run = pod.run()
    return pod.captured(lost * pod.steps, run)


def offloaded_weights() -> Written:
    """Weights lie in the host's memory, and each step waits for their copy."""
    made = Compiled()
    weight, x = made.parameter("bf16", WIDTH, WIDTH), made.parameter("bf16", ROWS, WIDTH)
    near, far = array("bf16", WIDTH, WIDTH), array("bf16", WIDTH, WIDTH, space=5)
    begun = Op("copy-start.3", "copy-start", tuple_of(near, far, shape("u32")), [weight.name])
    made.add(begun, "copy-start", 3000 * US, bytes=2 * WIDTH * WIDTH)
    done = Op("copy-done.3", "copy-done", near, [begun.name])
    made.add(done, "copy-done", 0, ends=begun.name)
    for _ in range(6):
        x = made.product(x, done, ROWS, WIDTH, WIDTH)
    pod = Pod(made, chips=1)
    run = pod.run()
    waited = sum(one.duration_ps for one in pod.chips[0].ops if one.name == pod.numbers[done.name])
    return pod.captured(waited, run)


def outside_compilation() -> Written:
    """A part of the step runs on the host: the chip sends an array and waits until it gets the result."""
    made = Compiled()
    weight, x = made.parameter("bf16", WIDTH, WIDTH), made.parameter("bf16", ROWS, WIDTH)
    for _ in range(3):
        x = made.product(x, weight, ROWS, WIDTH, WIDTH)
    scope, token, small = "train_step/cond/outside_compilation0", shape("u32"), array("f32", 128, 128)
    pair, last = tuple_of(small, token), x
    for opcode, made_of, took in (
        ("send", pair, 10 * US), ("send-done", token, 40 * US),
        ("recv", pair, 10 * US), ("recv-done", small, 2200 * US),
    ):  # fmt: skip
        kind = "XlaSendToHost" if opcode.startswith("send") else "XlaRecvFromHost"
        op = Op(
            f"{opcode}.7", opcode, made_of, [last.name], op_name=f"{scope}/{kind}", op_type=kind, raw=int_field(47, 1)
        )
        last = made.add(op, f"host {opcode}", took, bytes=65_536)
    for _ in range(3):
        x = made.product(x, weight, ROWS, WIDTH, WIDTH)
    pod = Pod(made, chips=1)
    run = pod.run()
    return pod.captured((10 + 40 + 10 + 2200) * US * pod.steps, run)


def idle_units() -> Written:
    """Matrix products at 30 % of the peak, with nothing else in the way."""
    made, lost = Compiled(), 0
    weight, x = made.parameter("bf16", WIDTH, WIDTH), made.parameter("bf16", ROWS, WIDTH)
    for _ in range(4):
        x = made.product(x, weight, ROWS, WIDTH, WIDTH, 0.3)
        lost += made.runs[-1].took * 7 // 10
    pod = Pod(made, chips=2)
    run = pod.run()
    return pod.captured(lost * pod.steps, run)
