/* Stack frames of the source that instructions come from. */
#ifndef FASTPROF_HLO_FRAMES_H
#define FASTPROF_HLO_FRAMES_H

#include "formats/hlo_reading.h"

/* Reads a StackFrameIndexProto into files, functions, locations and frame_ids. */
fp_code hlo_read_frames(hlo_reading *r, const wire_field *field);
/* Writes hlo->frames from them; called once the program has been read, since frames may refer to later ones. */
fp_code hlo_resolve_frames(hlo_reading *r);

#endif
