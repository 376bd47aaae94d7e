// How long to stay away. Decorrelated jitter: each delay is drawn between the least and three times the one before, so that
// many clients that lost one server do not come back at one moment, again and again. Pure.

export interface Backoff {
  /** Milliseconds. */
  readonly least: number;
  readonly most: number;
}

/** `random` is in [0, 1); `before` is the last delay, 0 for none. */
export const nextDelay = ({ least, most }: Backoff, before: number, random: number): number =>
  Math.min(most, least + random * Math.max(0, Math.max(least, before) * 3 - least));
