/** The menu of a track or a section. */

import { clear, h, on } from "../dom.js";

export class TrackMenu {
  constructor(actions) {
    this.actions = actions;
    this.root = h("div.tl-menu", { role: "menu", hidden: true });
    on(this.root, { keydown: (event) => this.key(event), focusout: ({ relatedTarget }) => {
      if (!this.root.contains(relatedTarget)) this.close();
    }, contextmenu: (event) => event.preventDefault() });
  }

  /** Opens at an element, or at the place of a click; `from` has the focus again once it is closed by Escape. */
  open(target, from, click = null) {
    if (!target) return;
    this.from = from;
    clear(this.root).append(...this.items(target).map(([text, keys, run]) => this.item(text, keys, run)));
    this.root.hidden = false;
    const box = this.root.parentElement.getBoundingClientRect();
    const at = from.getBoundingClientRect();
    const [x, y] = click ? [click.clientX, click.clientY] : [at.left, at.bottom + 2];
    const { offsetWidth: width, offsetHeight: height } = this.root;
    this.root.style.left = `${Math.max(Math.min(x - box.left, box.width - width - 4), 2)}px`;
    this.root.style.top = `${Math.max(Math.min(y - box.top, box.height - height - 4), 2)}px`;
    this.root.firstElementChild.focus();
  }

  items(target) {
    const { actions } = this;
    const isTrack = target.track >= 0;
    const siblings = actions.siblings(target);
    const at = siblings.indexOf(target.row);
    const move = (by) => () => actions.move(target, by);
    return [
      isTrack && [actions.isPinned(target) ? "Unpin" : "Pin on top", "P", () => actions.togglePin(target)],
      [isTrack ? "Hide" : "Hide the section", "H", () => actions.hide(target)],
      actions.canFold(target) && [isTrack ? "Fold or unfold" : "Open or close", "", () => actions.toggle(target.row)],
      at > 0 && ["Move up", "Alt+↑", move(-1)],
      at < siblings.length - 1 && ["Move down", "Alt+↓", move(1)],
      at > 0 && ["Move to the top", "Alt+Home", move(-Infinity)],
      at < siblings.length - 1 && ["Move to the bottom", "Alt+End", move(Infinity)],
    ].filter(Boolean);
  }

  item(text, keys, run) {
    return h("button.tl-menu-item", { role: "menuitem", onclick: () => {
      this.close();
      run();
    } }, h("span", text), h("span.tl-menu-keys", keys));
  }

  close() {
    this.root.hidden = true;
  }

  key(event) {
    const items = [...this.root.children];
    const at = items.indexOf(document.activeElement);
    const to =
      { ArrowDown: (at + 1) % items.length, ArrowUp: (at - 1 + items.length) % items.length, Home: 0,
        End: items.length - 1 }[event.key];
    event.stopPropagation();
    if (to !== undefined) {
      event.preventDefault();
      items[to].focus();
    } else if (event.key === "Escape") {
      event.preventDefault();
      this.close();
      this.from.focus();
    }
  }
}
