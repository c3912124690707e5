/**
 * Times as fastprof shows them everywhere, from the start of profiling. The page counts from the first event, in numbers
 * that are exact near the window. Only this module converts one into the other.
 */

import { exact } from "./time_format.js";

export class Clock {
  /** `origin`: what the page's 0 is, BigInt; `hosts`: [{host, offset_ps}], how far each is behind the first to start. */
  constructor(origin = 0n, hosts = []) {
    this.origin = origin;
    this.offsets = new Map(hosts.map((one) => [one.host, BigInt(one.offset_ps ?? 0)]));
  }

  /** A time of the page, a number or digits, as it is shown: BigInt. Of several hosts it is that of their common clock. */
  absolute(time) {
    return this.origin + (typeof time === "number" ? BigInt(Math.round(time)) : BigInt(time));
  }

  /** A shown time (BigInt) as one of the page. */
  back(absolute) {
    return Number(absolute - this.origin);
  }

  /** Every digit of a time of the page. */
  exact(time) {
    return exact(this.absolute(time));
  }

  /** The digits of a time that matter where a pixel is this many ps. */
  near(time, pixel) {
    const unit = 10n ** BigInt(Math.max(0, Math.floor(Math.log10(Math.max(pixel, 1)))));
    return exact(floored(this.absolute(time) + unit / 2n, unit));
  }

  /** How far a host's own clock is behind: 0n of most. */
  offset(host) {
    return this.offsets.get(host) ?? 0n;
  }

  /** A time of the page from the start of profiling on a host. */
  ofHost(time, host) {
    return this.absolute(time) - this.offset(host);
  }

  /** The flag of the command line that takes an interval of a host's time: for an instant, the ps that begins there. */
  flag(start, end, host) {
    const first = this.ofHost(start, host);
    const last = this.ofHost(end, host);
    return `--time=${typed(first)}:${typed(last > first ? last : first + 1n)}`;
  }
}

/** The largest multiple of a unit that is not above a value. */
export function floored(value, unit) {
  const rest = value % unit;
  return value - (rest < 0n ? rest + unit : rest);
}

/** A time in the form of the command line. */
function typed(ps) {
  return exact(ps).replace(" ", "").replace("µ", "u").replace("−", "-");
}
