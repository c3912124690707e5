"""Sequences of a batch have another length in every step, so that a tf.function is traced, and compiled by XLA. What a
step costs without that is measured with the lengths of before."""

import json
import sys
import time

import tensorflow as tf


@tf.function(jit_compile=True)
def train_step(w, tokens):
    x = tf.one_hot(tokens, 32)
    for _ in range(2):
        x = tf.tanh(tf.linalg.matmul(x, w))
    return tf.reduce_mean(x)


def timed(w, tokens):
    since = time.perf_counter_ns()
    train_step(w, tokens).numpy()
    return time.perf_counter_ns() - since


def main(logdir):
    w = tf.Variable(tf.eye(32))
    batches = [tf.ones((4, length), tf.int32) for length in (9, 10, 11, 12)]
    timed(w, batches[0])
    options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0)
    tf.profiler.experimental.start(logdir, options)
    begun, planted = time.perf_counter_ns(), 0
    for step, tokens in enumerate(batches[1:]):
        with tf.profiler.experimental.Trace("train", step_num=step, _r=1):
            planted += timed(w, tokens)
    run = time.perf_counter_ns() - begun
    tf.profiler.experimental.stop()
    again = sum(timed(w, tokens) for tokens in batches[1:])
    print(json.dumps({"planted_ns": planted - again, "run_ns": run}))


main(sys.argv[1])
