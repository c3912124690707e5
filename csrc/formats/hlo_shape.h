/* Shapes of values, as trees in preorder; see fp_hlo_shape. */
#ifndef FASTPROF_HLO_SHAPE_H
#define FASTPROF_HLO_SHAPE_H

#include "formats/hlo_reading.h"

/* Appends the rows of a ShapeProto and writes the first of them to *row. A shape with the same bytes as an earlier one
 * shares its rows. */
fp_code hlo_read_shape(hlo_reading *r, const wire_field *field, int32_t *row);

#endif
