"""Every second step writes a checkpoint. Steps are marked, Python is not traced."""

import json
import os
import sys
import tempfile
import time

import tensorflow as tf


@tf.function
def train_step(w, x):
    for _ in range(2):
        x = tf.tanh(tf.linalg.matmul(x, w))
    w.assign_sub(0.001 * tf.linalg.matmul(x, x, transpose_a=True))


def main(logdir):
    w, x, planted = tf.Variable(tf.eye(1536)), tf.ones((16, 1536)), 0
    train_step(w, x)
    checkpoint = tf.train.Checkpoint(w=w, copy=tf.Variable(w))
    with tempfile.TemporaryDirectory() as folder:
        checkpoint.write(os.path.join(folder, "first"))
        options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0)
        tf.profiler.experimental.start(logdir, options)
        begun = time.perf_counter_ns()
        for step in range(8):
            with tf.profiler.experimental.Trace("train", step_num=step, _r=1):
                train_step(w, x)
                if step % 2:
                    since = time.perf_counter_ns()
                    checkpoint.write(os.path.join(folder, f"at-{step}"))
                    planted += time.perf_counter_ns() - since
        run = time.perf_counter_ns() - begun
        tf.profiler.experimental.stop()
    print(json.dumps({"planted_ns": planted, "run_ns": run}))


main(sys.argv[1])
