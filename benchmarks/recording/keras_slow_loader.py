"""``fit`` with a dataset that decodes each item slowly: PyDataset or a generator. train.py [KIND [SECONDS]]"""

import sys
import time

import keras
import numpy as np
import tensorflow as tf


def decode_photo(number):
    time.sleep(0.0003)
    return np.full((320,), number % 7, np.float32)


class Photos(keras.utils.PyDataset):
    def __len__(self):
        return 50

    def __getitem__(self, number):
        x = np.stack([decode_photo(32 * number + i) for i in range(32)])
        return x, x


def generate_photos():
    number = 0
    while number < 32 * 50:
        x = decode_photo(number)
        number += 1
        yield x, x


class StopLater(keras.callbacks.Callback):
    def __init__(self, seconds):
        self.end, self.count, self.seconds = time.monotonic() + seconds, 0, seconds
        self.began = time.process_time()

    def on_train_batch_end(self, batch, logs=None):  # noqa: ARG002
        self.count += 1

    def on_epoch_end(self, epoch, logs=None):  # noqa: ARG002
        if time.monotonic() > self.end:
            self.model.stop_training = True
            used_ms = 1000 * (time.process_time() - self.began) / self.count
            print(f"{self.count / self.seconds:.1f} steps a second, {used_ms:.3f} ms of processor time each")


def main(kind="sequence", seconds=20.0):
    model = keras.Sequential([keras.layers.Dense(320, activation="tanh"), keras.layers.Dense(320)])
    model.compile("sgd", "mse")
    if kind == "sequence":
        data = Photos()
    else:
        spec = tf.TensorSpec((320,), tf.float32)
        data = tf.data.Dataset.from_generator(generate_photos, output_signature=(spec, spec)).batch(32)
    model.fit(data, epochs=1 << 20, verbose=0, callbacks=[StopLater(seconds)])


if __name__ == "__main__":
    main(*(kind(text) for kind, text in zip((str, float), sys.argv[1:], strict=False)))
