/** Follows a session while it is built: its timeline as it grows, until all of it is there. */

import { SessionModel } from "./session_model.js";

const SOON_MS = 60;
const LATER_MS = 2000;

export class SessionFeed {
  /** `took(model, answer)` for each answer, with a model if it is a fuller one; `failed(error)`; `signal`: ends it. */
  constructor({ source, signal }, took, failed) {
    Object.assign(this, { source, signal, took, failed, key: null });
  }

  /** Asks until the session is ready; after that only when the server no longer knows it by its key. */
  async follow() {
    if (this.following) return;
    this.following = true;
    while (!this.signal.aborted) {
      try {
        const answer = await this.source.timeline(this.key === null ? {} : { after: this.key }, this.signal);
        if (this.signal.aborted) break;
        const news = answer.key !== this.key || answer.state === "ready";
        this.key = answer.key;
        this.took(news || !this.model ? (this.model = new SessionModel(answer)) : null, answer);
        if (answer.state === "ready") break;
        await wait(SOON_MS);
      } catch (error) {
        if (this.signal.aborted) break;
        this.failed(error);
        await wait(LATER_MS);
      }
    }
    this.following = false;
  }

  /** The key is no longer known: everything is requested again. */
  again() {
    this.key = null;
    this.follow();
  }
}

function wait(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
