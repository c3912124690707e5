/** Follows a session while it is built: its timeline as it grows, until all of it is there. */

import { SessionModel } from "./session_model.js";

const SOON_MS = 60;
const LATER_MS = 2000;

export class SessionFeed {
  /** `took(model)` for each fuller model, `failed(error)` where none could be had. */
  constructor(source, took, failed) {
    Object.assign(this, { source, took, failed });
    this.over = new AbortController();
    this.key = null;
  }

  /** Asks until the session is ready; after that only when the server no longer knows it by its key. */
  async follow() {
    if (this.following) return;
    this.following = true;
    while (!this.over.signal.aborted) {
      try {
        const answer = await this.source.timeline(this.key === null ? {} : { after: this.key }, this.over.signal);
        if (this.over.signal.aborted) break;
        const news = answer.key !== this.key || answer.state === "ready";
        this.key = answer.key;
        this.took(news || !this.model ? (this.model = new SessionModel(answer)) : null, answer);
        if (answer.state === "ready") break;
        await wait(SOON_MS);
      } catch (error) {
        if (this.over.signal.aborted) break;
        this.failed(error);
        await wait(LATER_MS);
      }
    }
    this.following = false;
  }

  /** The key is no longer known: everything is asked anew. */
  again() {
    this.key = null;
    this.follow();
  }

  leave() {
    this.over.abort();
  }
}

function wait(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
