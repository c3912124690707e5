"""The fields of protobuf messages."""

from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memset

from fastprof._native.border cimport *


cdef extern from "formats/message_fields.h" nogil:
    enum: FP_NUMBERS_LEFT_OUT
    ctypedef struct fp_message_span:
        uint64_t offset, length
    ctypedef struct fp_message_fields:
        fp_memory *memory
        void *data
        uint64_t size
        fp_message_span *messages
        size_t count
        uint64_t left_out[2]
        fp_vector first, numbers, values, lengths
    fp_code fp_message_fields_read(fp_message_fields *found, fp_fault *fault)
    void fp_message_fields_free(fp_message_fields *found)


def read_message_fields(data, spans, left_out, str doing):
    """The fields of the messages of ``data`` whose offsets and lengths, uint64, are in ``spans`` by turns: int64 bytes of
    where the fields of each begin, one more than there are messages; of field numbers; of values, or offsets of bytes; and of
    lengths of bytes, -1 of numbers. Fields whose numbers, below 128, are ``left_out`` are not there, nor are groups.

    Raises CaptureError where one does not decode, which says what a reader was ``doing``, and MemoryLimitError.
    """
    cdef Array message = given(data, U8), places = given(spans, U64)
    cdef fp_memory memory
    cdef fp_message_fields found
    cdef fp_fault fault
    cdef fp_code code
    if places.count % 2:
        raise ValueError("there is not one length for each offset")
    memset(&found, 0, sizeof(found))
    fp_memory_init(&memory)
    for number in left_out:
        if not 0 <= number < FP_NUMBERS_LEFT_OUT:
            raise IndexError(number)
        found.left_out[number // 64] |= (<uint64_t>1) << (number % 64)
    found.memory, found.data, found.size = &memory, message.at, message.count
    found.messages, found.count = <fp_message_span *>places.at, places.count // 2
    try:
        with nogil:
            code = fp_message_fields_read(&found, &fault)
        check(code, doing, &fault if code != FP_NO_MEMORY else NULL)
        return taken(&found.first, 8), taken(&found.numbers, 8), taken(&found.values, 8), taken(&found.lengths, 8)
    finally:
        fp_message_fields_free(&found)


def read_message(data, str doing):
    """The fields of a message, a memoryview, by number: the values of numbers, uint64, and views of bytes, in order.
    Groups are left out.

    Raises CaptureError where it does not decode, and MemoryLimitError.
    """
    cdef Array message = given(data, U8)
    cdef fp_memory memory
    cdef fp_message_fields found
    cdef fp_message_span all_of_it
    cdef fp_fault fault
    cdef fp_code code
    cdef size_t k
    memset(&found, 0, sizeof(found))
    fp_memory_init(&memory)
    all_of_it.offset, all_of_it.length = 0, message.count
    found.memory, found.data, found.size = &memory, message.at, message.count
    found.messages, found.count = &all_of_it, 1
    try:
        code = fp_message_fields_read(&found, &fault)
        check(code, doing, &fault if code != FP_NO_MEMORY else NULL)
        fields = {}
        for k in range(found.numbers.count):
            number, value, length = (<int64_t *>found.numbers.items)[k], (<uint64_t *>found.values.items)[k], (
                <int64_t *>found.lengths.items)[k]
            fields.setdefault(number, []).append(value if length < 0 else data[value:value + length])
        return fields
    finally:
        fp_message_fields_free(&found)
