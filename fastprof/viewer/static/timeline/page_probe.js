/** What tests and benchmarks read of the page, as plain objects: `window.fastprofTimeline`. */

import { boxOf, slicesDrawn } from "./hit_test.js";

export function probeOf(timeline, panels) {
  const { view, layout, selection } = timeline;
  const onPage = (box) => {
    const area = timeline.over.canvas.getBoundingClientRect();
    return box && { x: area.x + box.x, y: area.y + box.y, width: box.width, height: box.height };
  };
  return {
    idle: () => timeline.idle,
    view: () => ({ start_ps: view.start, end_ps: view.end }),
    /** A time of the page as shown, from the start of profiling, as digits. */
    absolute: (time) => String(timeline.model.clock.absolute(time)),
    show(start, end) {
      view.glide = null;
      view.set(start, end - start);
      timeline.invalidate();
    },
    scrollTo(y) {
      layout.scrollTo(y);
      timeline.invalidate();
    },
    processes: () =>
      timeline.model.processes.map((one) => ({ id: one.id, name: one.name, host: one.host,
        collapsed: layout.closed.has(one.id) })
      ),
    tracks: () => tracksOf(timeline),
    slices(id) {
      const track = timeline.model.placeOf.get(id);
      if (track === undefined) return [];
      return slicesDrawn(timeline, track).map((slice) => ({ at: slice.at,
        name: timeline.names.text(slice.host, slice.name) ?? null, start_ps: slice.start, duration_ps: slice.duration,
        count: slice.count, busy: slice.busy, lane: slice.lane,
        ...onPage(boxOf(timeline, track, slice.lane, slice.start, slice.duration)) })
      );
    },
    screenOf(ref) {
      const hit = selection.hitOf(ref);
      return hit && onPage(boxOf(timeline, hit.track, hit.lane, hit.start, hit.duration));
    },
    selection: () => ({ event: selection.event && { ...selection.event }, details: panels.event.details,
      range: selection.range
        && { start_ps: selection.range.start, end_ps: selection.range.end, tracks: selection.range.ids,
          ...panels.range.answer },
      search: panels.search.answer
        && { ...panels.search.query, events: panels.search.answer.events, names: panels.search.answer.names,
          hit: panels.search.hit, number: panels.search.number }, marks: selection.marks.map((mark) => ({ ...mark })),
      arrows: selection.arrows() }),
    cache: () => ({ tiles: timeline.cache.entries.size, bytes: timeline.cache.bytes, fetched: timeline.cache.fetched }),
  };
}

function tracksOf({ model, layout, over }) {
  const top = over.canvas.getBoundingClientRect().y;
  const tracks = [];
  for (let row = 0; row < layout.count; row++) {
    const track = layout.track[row];
    if (track < 0) continue;
    tracks.push({ id: model.id[track], name: model.name[track], process: model.processes[model.process[track]].id,
      host: model.hostOf(track), top: top + layout.y(row), pinned: row < layout.pinned,
      lanesShown: layout.lanesShown(track), height: layout.top[row + 1] - layout.top[row],
      collapsed: layout.isFolded(track), lanes: model.lanes[track], derived: model.derived[track],
      events: model.events[track] });
  }
  return tracks;
}
