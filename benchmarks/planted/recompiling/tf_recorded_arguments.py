"""A rate is a Python number, and the last batch is smaller: a tf.function is traced again for each of them. fastprof
records the program, and so the arguments. What a step costs without traces is measured afterwards."""

import json
import sys
import time

import tensorflow as tf

import fastprof

W = tf.Variable(tf.eye(16))


@tf.function
def train_step(batch, rate):
    loss = tf.reduce_mean(tf.tanh(batch["x"] @ W))
    W.assign_sub(rate * tf.ones_like(W))
    return loss


def main(logdir):
    batches = [(tf.ones((rows, 16)), rate) for rows, rate in ((8, 0.1), (8, 0.05), (8, 0.025), (3, 0.025))]
    train_step({"x": tf.ones((8, 16))}, 0.2)
    with fastprof.record(logdir, host_level=2):
        begun = time.perf_counter_ns()
        for step, (x, rate) in enumerate(batches):
            with tf.profiler.experimental.Trace("train", step_num=step, _r=1):
                train_step({"x": x}, rate).numpy()
        run = time.perf_counter_ns() - begun
    since = time.perf_counter_ns()
    for x, rate in batches:
        train_step({"x": x}, rate).numpy()
    print(json.dumps({"planted_ns": run - (time.perf_counter_ns() - since), "run_ns": run}))


main(sys.argv[1])
