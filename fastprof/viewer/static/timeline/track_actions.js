/** What can be done with tracks and sections: pin, hide, move, fold; of one that is pointed at, or from its menu. */

export class TrackActions {
  constructor(timeline) {
    this.timeline = timeline;
    this.changed = new Set(); // called after each change
  }

  get arrangement() {
    return this.timeline.layout.arrangement;
  }

  change(act) {
    this.timeline.rearrange(act);
    for (const listener of this.changed) listener();
  }

  /** What a row stands for: {row, track, number} with track -1 for a section; null: the row does not exist. */
  of(row) {
    const { layout } = this.timeline;
    return row >= 0 && row < layout.count ? { row, track: layout.track[row], number: layout.process[row] } : null;
  }

  idOf({ track, number }) {
    const { model } = this.timeline;
    return track < 0 ? model.processes[number].id : model.id[track];
  }

  isPinned(target) {
    return target.track >= 0 && target.row < this.timeline.layout.pinned;
  }

  toggle(row) {
    this.timeline.toggleRow(row);
  }

  canFold({ track }) {
    return track < 0 || this.timeline.model.canFold(track);
  }

  togglePin(target) {
    if (target.track < 0) return;
    const id = this.idOf(target);
    this.change(() => (this.isPinned(target) ? this.arrangement.unpin(id) : this.arrangement.pin(id)));
  }

  hide(target) {
    const id = this.idOf(target);
    this.change(() => (target.track < 0 ? this.arrangement.hiddenSections.add(id) : this.arrangement.hide(id)));
  }

  toggleEmpty() {
    this.change(() => (this.arrangement.hidesEmpty = !this.arrangement.hidesEmpty));
  }

  showAll() {
    this.change(() => this.arrangement.showAll());
  }

  show(id, isSection) {
    this.change(() => (isSection ? this.arrangement.hiddenSections : this.arrangement.hidden).delete(id));
  }

  /** Resets the tracks: nothing is pinned, hidden or moved. */
  reset() {
    this.change(() => this.arrangement.clear());
  }

  /** The rows among which one can be moved, in their order: pinned tracks, tracks of a process, sections. */
  siblings(target) {
    const { layout } = this.timeline;
    const rows = Array.from({ length: layout.count }, (_, row) => row);
    if (this.isPinned(target)) return rows.slice(0, layout.pinned);
    if (target.track < 0) return rows.filter((row) => layout.track[row] < 0);
    return rows.slice(layout.pinned).filter((row) => layout.track[row] >= 0 && layout.process[row] === target.number);
  }

  /** Moves it before another row of its kind; null: to the end. */
  moveBefore(target, row) {
    const { layout, model } = this.timeline;
    const [id, before] = [this.idOf(target), row === null ? null : this.idOf(this.of(row))];
    if (id === before) return;
    const { arrangement } = this;
    this.change(() => {
      if (this.isPinned(target)) arrangement.pin(id, before);
      else if (target.track < 0)
        arrangement.sections.move(layout.processesInOrder().map((number) => model.processes[number].id), id, before);
      else arrangement.tracks.move(layout.tracksInOrder(target.number).map((track) => model.id[track]), id, before);
    });
  }

  /** Moves it by one place among those that are shown, -1 up, 1 down; -Infinity and Infinity: to the ends. */
  move(target, by) {
    const siblings = this.siblings(target);
    const at = siblings.indexOf(target.row);
    const to = Math.min(Math.max(at + by, 0), siblings.length - 1);
    if (at < 0 || to === at) return;
    this.moveBefore(target, to > at ? (siblings[to + 1] ?? null) : siblings[to]);
  }

  /** Pins a track before another pinned one; null: as the last. */
  pinBefore(target, row) {
    this.change(() => this.arrangement.pin(this.idOf(target), row === null ? null : this.idOf(this.of(row))));
  }

  unpin(target) {
    this.change(() => this.arrangement.unpin(this.idOf(target)));
  }
}
