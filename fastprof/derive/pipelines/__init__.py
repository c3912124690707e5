"""Input pipelines of tf.data: their iterators, the calls of each pipeline, and where the time of a call goes."""
