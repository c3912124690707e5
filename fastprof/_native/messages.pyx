"""The fields of protobuf messages."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from fastprof._native.border cimport *
from fastprof.errors import CaptureError


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


cdef enum:
    HELD = 1 << 25  # bytes of memory that fields of any data may take
    HELD_A_BYTE = 2  # an empty field has two bytes, and takes dozens


cdef void limit(fp_memory *memory, size_t size) noexcept:
    start_memory(memory)
    memory.most = HELD + HELD_A_BYTE * <int64_t>size


cdef void checked(fp_code code, str doing, const fp_fault *fault, fp_memory *memory) except *:
    if code == FP_NO_MEMORY and memory.is_exceeded:
        raise CaptureError(f"the fields take more memory than {HELD >> 20} MiB plus {HELD_A_BYTE} bytes per byte, {doing}")
    check(code, doing, fault if code != FP_NO_MEMORY else NULL)


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
    limit(&memory, message.count)
    for number in left_out:
        if not 0 <= number < FP_NUMBERS_LEFT_OUT:
            raise IndexError(number)
        found.left_out[number // 64] |= (<uint64_t>1) << (number % 64)
    found.memory, found.data, found.size = &memory, message.at, message.count
    found.messages, found.count = <fp_message_span *>places.at, places.count // 2
    try:
        with nogil:
            code = fp_message_fields_read(&found, &fault)
        checked(code, doing, &fault, &memory)
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
    start_memory(&memory)
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


cdef extern from "formats/message_tables.h" nogil:
    enum: FP_TABLE_FIELDS, FP_MOST_TABLES, FP_FIELD_INT, FP_FIELD_SPAN, FP_FIELD_TABLE, FP_FIELD_NUMBERS, FP_FIELD_SPANS
    ctypedef struct fp_message_table:
        uint8_t use[32]
        uint8_t place[32]
        uint32_t ints, width
        fp_vector values
    ctypedef struct fp_message_tables:
        fp_memory *memory
        const uint8_t *data
        uint64_t size
        fp_message_table tables[32]
    fp_code fp_message_tables_read(fp_message_tables *found, void *spans, size_t count, fp_fault *fault)
    void fp_message_tables_free(fp_message_tables *found)


def read_message_tables(data, spans, tables, str doing):
    """Tables of the messages of ``data`` whose offsets and lengths, uint64, are in ``spans`` by turns, and of messages in
    them: of each table int64 bytes, row by row.

    ``tables``: of each the numbers of fields, all below 32, of its integers; of its texts, bytes or messages whose places
    are wanted; of messages that are rows of a later table, with its number; of numbers that are; and of texts that are. A row
    is the number of the row around it, or of the span; the integers; and the places, offset and length, -1: there is none. Raises CaptureError
    where one does not decode, which says what a reader was ``doing``, and MemoryLimitError.
    """
    cdef Array content = given(data, U8), places = given(spans, U64)
    cdef fp_memory memory
    cdef fp_message_tables found
    cdef fp_message_table *table
    cdef fp_fault fault
    cdef fp_code code
    cdef int at, i
    if places.count % 2:
        raise ValueError("there is not one length for each offset")
    if not 0 < len(tables) <= FP_MOST_TABLES:
        raise ValueError("too many tables, or none")
    memset(&found, 0, sizeof(found))
    for at, (integers, texts, messages, numbers, lists) in enumerate(tables):
        table = &found.tables[at]
        table.ints, table.width = len(integers), 1 + len(integers) + 2 * len(texts)
        for kind, fields in ((FP_FIELD_INT, integers), (FP_FIELD_SPAN, texts)):
            for i, number in enumerate(fields):
                set_use(table, number, kind, i)
        for kind, pairs in ((FP_FIELD_TABLE, messages), (FP_FIELD_NUMBERS, numbers), (FP_FIELD_SPANS, lists)):
            for number, later in pairs:
                if not at < later < len(tables):
                    raise IndexError(later)
                shape = len(tables[later][0]), len(tables[later][1])
                if (kind == FP_FIELD_NUMBERS and shape != (1, 0)) or (kind == FP_FIELD_SPANS and shape != (0, 1)):
                    raise ValueError("a table of other columns than its rows have")
                set_use(table, number, kind, later)
    limit(&memory, content.count)
    found.memory, found.data, found.size = &memory, <const uint8_t *>content.at, content.count
    try:
        with nogil:
            code = fp_message_tables_read(&found, places.at, places.count // 2, &fault)
        checked(code, doing, &fault, &memory)
        return [taken(&found.tables[at].values, 8) for at in range(len(tables))]
    finally:
        fp_message_tables_free(&found)


cdef int set_use(fp_message_table *table, int number, int use, int place) except -1:
    if not 0 < number < FP_TABLE_FIELDS:
        raise IndexError(number)
    table.use[number], table.place[number] = use, place
    return 0
