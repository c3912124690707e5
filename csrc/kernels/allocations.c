/* One hash table of addresses per allocator, with the open allocation of each. Addresses that were freed stay in it:
 * a free there lost its allocation, while a free at an unknown address had its allocation before the trace. */
#include "kernels/allocations.h"

/* The last event at an address. */
typedef struct slot {
  int64_t address;
  int32_t open; /* the allocation that is not freed yet, or one of the two values below */
} slot;
enum { FREE_ADDRESS = -1, NO_ADDRESS = -2 };

typedef struct table {
  slot *slots;
  size_t size, used; /* `size` is a power of two and at least twice `used` */
  uint64_t seed;
} table;

enum { FIRST_SIZE = 256 };

/* The slot where the search for an address begins. The seed keeps a file from being made so that its addresses
 * collide. */
static size_t home_of(const table *addresses, int64_t address) {
  uint64_t hash = ((uint64_t)address ^ addresses->seed) * UINT64_C(0x9E3779B97F4A7C15);
  hash = (hash ^ (hash >> 29)) * (addresses->seed | 1);
  return (size_t)(hash ^ (hash >> 32)) & (addresses->size - 1);
}

/* The slot of an address, or the free one where it belongs. */
static slot *find(const table *addresses, int64_t address) {
  size_t at = home_of(addresses, address);
  while (addresses->slots[at].open != NO_ADDRESS && addresses->slots[at].address != address)
    at = (at + 1) & (addresses->size - 1);
  return &addresses->slots[at];
}

static slot *new_slots(fp_memory *memory, size_t size) {
  slot *slots = fp_alloc(memory, size * sizeof *slots);
  for (size_t i = 0; slots && i < size; i++) slots[i] = (slot){0, NO_ADDRESS};
  return slots;
}

/* Doubles the slots. Fails only when memory runs out; the table is unchanged then. */
static bool grow(fp_memory *memory, table *addresses) {
  table larger = *addresses;
  larger.size *= 2;
  larger.slots = new_slots(memory, larger.size);
  if (!larger.slots) return false;
  for (size_t i = 0; i < addresses->size; i++)
    if (addresses->slots[i].open != NO_ADDRESS) *find(&larger, addresses->slots[i].address) = addresses->slots[i];
  fp_release(memory, addresses->slots);
  *addresses = larger;
  return true;
}

/* The slot of an address, added if it is new: then `open` is NO_ADDRESS. NULL when memory runs out. */
static slot *slot_of(fp_memory *memory, table *addresses, int64_t address) {
  slot *found = find(addresses, address);
  if (found->open != NO_ADDRESS) return found;
  if (2 * (addresses->used + 1) > addresses->size) {
    if (!grow(memory, addresses)) return NULL;
    found = find(addresses, address);
  }
  addresses->used++;
  found->address = address;
  return found;
}

/* Both write the fate of the events that they complete. */
static void allocate(slot *at, int32_t row, bool keep_first, uint8_t *fate) {
  if (at->open >= 0) fate[keep_first ? row : at->open] = FP_REPLACED;
  if (at->open < 0 || !keep_first) at->open = row;
}

static void release(slot *at, int32_t row, int32_t *partner, uint8_t *fate) {
  if (at->open >= 0) {
    partner[at->open] = row;
    partner[row] = at->open;
    fate[at->open] = fate[row] = FP_FREED;
  } else {
    fate[row] = at->open == FREE_ADDRESS ? FP_ALLOCATION_LOST : FP_HELD_BEFORE;
  }
  at->open = FREE_ADDRESS;
}

/* The events of one allocator. Fails only when memory runs out. */
static bool match_one(fp_memory *memory, table *addresses, const fp_allocation_events *events, size_t first,
                      size_t last, bool keep_first, int32_t *partner, uint8_t *fate) {
  for (size_t row = first; row < last; row++) {
    partner[row] = -1;
    fate[row] = FP_FATE_UNKNOWN;
    if (events->known && !events->known[row]) continue;
    slot *at = slot_of(memory, addresses, events->address[row]);
    if (!at) return false;
    if (events->is_allocation[row]) {
      fate[row] = FP_HELD_AT_END; /* until more is known */
      allocate(at, (int32_t)row, keep_first, fate);
    } else {
      release(at, (int32_t)row, partner, fate);
    }
  }
  return true;
}

fp_code fp_match_allocations(fp_memory *memory, const fp_allocation_events *events, bool keep_first, int32_t *partner,
                          uint8_t *fate) {
  bool ok = true;
  for (size_t allocator = 0; ok && allocator < events->allocator_count; allocator++) {
    table addresses = {new_slots(memory, FIRST_SIZE), FIRST_SIZE, 0, memory->seed};
    size_t first = (size_t)events->bounds[allocator], last = (size_t)events->bounds[allocator + 1];
    ok = addresses.slots && match_one(memory, &addresses, events, first, last, keep_first, partner, fate);
    fp_release(memory, addresses.slots);
  }
  return ok ? FP_OK : FP_NO_MEMORY;
}
