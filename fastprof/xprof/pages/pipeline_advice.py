"""What TensorFlow's tool advises against each bottleneck of tf.data, as the HTML that its page shows."""

from __future__ import annotations

from fastprof.xprof.pages.data_table import anchor

_PLAYBOOK = "https://www.tensorflow.org/guide/data_performance_analysis"
_GUIDE = "https://www.tensorflow.org/guide/data_performance"
_SERVICE = "https://www.tensorflow.org/api_docs/python/tf/data/experimental/service?version=nightly"

_CACHE = (
    "2. Consider adding <code>cache</code> after this transformation if your data fits into memory and it is "
    "appropriate (e.g., there is no randomness in upstream transformations like <code>shuffle</code>). See "
    f"{anchor(f'{_GUIDE}#caching', 'this')} for more details.<br/>"
)
_SOURCE = (
    "1. Check the locality of a host and input data. Ideally, they should be in the same cell (or very close, like the "
    "same region).<br/>2. Parallelize reading from this dataset source. See "
    f"{anchor(f'{_PLAYBOOK}#source_datasets', 'here')} and "
    f"{anchor(f'{_GUIDE}#parallelizing_data_extraction', 'here')} for more details.<br/>"
)
_DATA_SERVICE = (
    "1. Fetching data from tf.data service took a while. Profile the tf.data service worker to analyze the issue "
    f"further.<br/>2. See {anchor(_SERVICE, 'this')} for more details on tf.data service.<br/>3. See "
    f"{anchor(_PLAYBOOK, 'this')} for other suggestions."
)
_REMOTE = (
    "1. The remote data source is slow. Profile its host to analyze the issue further.<br/>2. See "
    f"{anchor(_PLAYBOOK, 'this')} for other suggestions."
)
_PARALLEL = (
    "1. Parallelize this transformation by setting <code>num_parallel_calls=tf.data.experimental.AUTOTUNE</code>. See "
    f"{anchor(f'{_GUIDE}#parallelizing_data_transformation', 'this')} for more details.<br/>{_CACHE}"
    f"3. Find more resources {anchor(f'{_PLAYBOOK}#transformation_datasets', 'here')}."
)
_SEQUENTIAL = (
    "1. This transformation is inherently sequential. Add outer parallelism by running multiple copies of the input "
    "pipeline over sharded inputs and combining the results. See "
    f"{anchor(f'{_PLAYBOOK}#transformation_datasets', 'this')} for more details.<br/>{_CACHE}"
    f"3. Find more resources {anchor(f'{_PLAYBOOK}#3_are_you_reaching_high_cpu_utilization', 'here')}."
)
_OTHER = f"See {anchor(_PLAYBOOK, 'this')} for suggestions."

_BY_NAMES = (
    (
        "TFRecord SSTable RecordIO Spanner TFColumn SleepwalkRemoteDataset TextLine StitchedTimelineDataset "
        "DateKeyDataset CapacitorProto LMDB ExternalDataset PearModel FixedLengthRecordV2 FromTensor TensorSlice "
        "Generator SyntheticDatasetOp",
        _SOURCE,
    ),
    ("DataService", _DATA_SERVICE),
    ("GuzzlerDataGuzzlerRemoteDataset ReverbDataset DatasetSampleGame Courier ReverbEpisodeDataset", _REMOTE),
    ("Map Interleave", _PARALLEL),
    ("Filter Batch Unbatch", _SEQUENTIAL),
)
_ADVICE = {name: advice for names, advice in _BY_NAMES for name in names.split()}


def advice(iterator: str) -> str:
    """By the short name of an iterator, which has to match exactly: ``BatchV2`` is none that the tool knows."""
    return _ADVICE.get(iterator, _OTHER)
